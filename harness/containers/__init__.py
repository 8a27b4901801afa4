"""Docker: its daemon, what a run makes there, and what is left of runs that were killed."""
