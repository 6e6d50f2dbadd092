"""Verification of tables: the runs of their rows, and notes for the next verification."""
