"""How it moves: Bytewax flows and the pure steps they are wired from. Imports schemas and storage."""
