"""The settings of a run: options, the types of their values, and `run.toml`."""
