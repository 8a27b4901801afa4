"""Run the checkers over evidence, and say what the evidence lacks."""
