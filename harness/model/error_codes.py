"""Kafka's error codes."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from harness.common.documents import read_toml


@cache
def error_codes() -> Mapping[str, int]:
    """Return all error codes by Kafka's name: `NOT_COORDINATOR`."""
    return read_toml(Path(__file__).with_name("error-codes.toml"))
