"""Defects: planted bugs that show that the checkers find them."""
