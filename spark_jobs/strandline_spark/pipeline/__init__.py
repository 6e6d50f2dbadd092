"""A pipeline: the file that maps topics to tables, and the job that runs it."""
