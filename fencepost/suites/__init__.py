"""Suites: a matrix of runs, planned from a file, carried out side by side, judged together, and told in one folder."""
