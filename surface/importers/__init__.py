"""Bringing in what was recorded elsewhere: through the same gate, journal and ids as live capture."""
