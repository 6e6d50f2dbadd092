"""The log of Delta tables: it is followed entry by entry, and commits are written to it."""
