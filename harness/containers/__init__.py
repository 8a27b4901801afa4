"""Docker: the daemon, the containers of a run, and the removal of what killed runs have left."""
