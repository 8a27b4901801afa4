"""What is decided key by key of a history from elsewhere, in numpy: one task has all rows of its keys."""
