"""What a user can set: options, the kinds of value, and run.toml."""
