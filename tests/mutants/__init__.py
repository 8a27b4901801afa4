"""Mutants: checker files with one thing changed. The tests must catch each of them."""
