"""Computations by key of an external history, in numpy: one task has all rows of its keys."""
