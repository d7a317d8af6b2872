"""What a thing is: events, answers, columns, ids, clock, limits, errors, config. Imports nothing of ours."""
