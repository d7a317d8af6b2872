"""The verbs of the command line, one module per group of them; heavy imports wait until a verb runs."""
