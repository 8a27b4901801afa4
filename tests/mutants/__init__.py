"""Checkers with one thing changed: each must be caught by the exhaustive tests, or mean the same."""
