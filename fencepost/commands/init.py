"""`fencepost init`."""

from importlib.resources import files
from pathlib import Path

import click

from harness.common.errors import ExitStatus, UsageError

NAMES = ("pipeline.toml", "expect.py")


@click.command("init", short_help="Begin to describe a pipeline of your own.")
@click.argument("folder", metavar="[DIR]", default=".", required=False)
def command(folder: str) -> ExitStatus:
    """Write a commented pipeline.toml, and expect.py, for a pipeline of your own.

    \b
    Example:
      fencepost init
      fencepost init chaos
    """
    place = Path(folder)
    for name in NAMES:
        if (place / name).exists():
            raise UsageError(
                f"{place / name} is there already: name another folder, as `fencepost init chaos`"
            )
    try:
        place.mkdir(parents=True, exist_ok=True)
        for name in NAMES:
            text = (files("workloads.custom.templates") / name).read_text(encoding="utf-8")
            (place / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{place} cannot be written: {error.strerror or error}") from error
    print(f"wrote {place / NAMES[0]} and {place / NAMES[1]}; edit them, then:")
    print(f"  fencepost doctor --pipeline {place / NAMES[0]}")
    print(f"  fencepost run --pipeline {place / NAMES[0]}")
    return ExitStatus.VALID
