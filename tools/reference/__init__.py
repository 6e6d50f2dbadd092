"""The documents of docs/reference/, made from the code: one module for each document."""
