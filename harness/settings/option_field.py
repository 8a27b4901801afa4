"""One field of `Options`: its kind, its default, and what is said of it."""

from dataclasses import field
from typing import Any

from harness.settings.kinds import Kind, Settings, Text

PATH = Text("the path of a folder")
TOOL = Text("auto, bundled, or a path")
SPARK = Settings(r"spark\.[^\s=]+", 'one of Spark\'s, which begin with "spark."')
BROKER = Settings(r"[a-z][a-z0-9._-]*", "a setting of Kafka's brokers")
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


def option(kind: Kind, default: Any, words: str, *, flag: bool = False) -> Any:
    """A field. With `flag` it has an option of its own on the command line, else `--set` sets it."""
    metadata = {"kind": kind, "help": words, "flag": flag}
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)
