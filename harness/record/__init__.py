"""Journals as they are written, and the tables that they become."""
