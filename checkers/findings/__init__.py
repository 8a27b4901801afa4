"""The form of findings, and the functions that build them."""
