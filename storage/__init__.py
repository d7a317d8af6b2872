"""Where it rests: home, journal, tables, known ids, outbox, embedder. Imports schemas."""
