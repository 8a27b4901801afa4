"""Processes that cannot outlive the run that spawned them, whatever ends it."""
