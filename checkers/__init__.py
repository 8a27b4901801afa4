"""The checkers: what contradicts what in the tables of a run."""
