"""Who asks: hook, command line, server, importers. Imports everything above it."""
