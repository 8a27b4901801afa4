"""Docker: the daemon, the containers of a run, and the removal of the containers of killed runs."""
