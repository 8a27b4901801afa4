"""Why mutants that survive mean the same."""

import tomllib
from pathlib import Path

REASONS = Path(__file__).parent / "equivalent.toml"


def reasons() -> dict[str, str]:
    """By key of a mutant."""
    same: dict[str, str] = tomllib.loads(REASONS.read_text())["same"]
    return same
