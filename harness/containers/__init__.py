"""Docker: the `container`s of a run, and the `daemon`, with the removal of what killed runs have left on it."""
