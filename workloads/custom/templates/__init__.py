"""What `fencepost init` writes: a description with all of its keys, and the functions that it names."""
