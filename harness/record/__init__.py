"""Writes journals, and makes tables from them."""
