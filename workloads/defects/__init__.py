"""Defects: planted bugs. Runs with them show that the checkers find such bugs."""
