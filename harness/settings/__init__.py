"""The settings of a run: `options`, the types of their values (`kinds`), and `run.toml` (`run_file`)."""
