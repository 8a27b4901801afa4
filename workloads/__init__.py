"""Pipelines under test, one file each: consume-transform-produce loops, and what they promise."""
