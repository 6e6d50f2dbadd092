"""State: the latest row of each key of silver, kept in a Delta table by MERGE."""
