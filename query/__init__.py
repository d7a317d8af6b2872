"""How it comes back: search, timeline, details. Imports schemas and storage."""
