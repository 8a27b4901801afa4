"""Custom pipelines: a user's own programs, in any language, described by `pipeline.toml`. They keep no journals."""
