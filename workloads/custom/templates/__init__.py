"""The files that `fencepost init` writes: a pipeline.toml with all keys, and the functions that it names."""
