"""A pipeline: a file that says which topics become which tables, and the job that does it."""
