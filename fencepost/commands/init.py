"""`fencepost init`."""

from importlib.resources import files
from pathlib import Path

import click

from harness.common.errors import ExitStatus, UsageError

NAMES = ("pipeline.toml", "expect.py")


@click.command("init", short_help="Write a pipeline.toml to describe your own pipeline.")
@click.argument("folder", metavar="[DIR]", default=".", required=False)
def command(folder: str) -> ExitStatus:
    """Write a pipeline.toml with comments, and an expect.py, as a start for your own pipeline.

    \b
    Example:
      fencepost init
      fencepost init chaos
    """
    directory = Path(folder)
    for name in NAMES:
        if (directory / name).exists():
            raise UsageError(
                f"{directory / name} exists already: name another folder, such as `fencepost init chaos`"
            )
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name in NAMES:
            text = (files("workloads.custom.templates") / name).read_text(encoding="utf-8")
            (directory / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{directory} cannot be written: {error.strerror or error}") from error
    print(f"wrote {directory / NAMES[0]} and {directory / NAMES[1]}; edit them, then:")
    print(f"  fencepost doctor --pipeline {directory / NAMES[0]}")
    print(f"  fencepost run --pipeline {directory / NAMES[0]}")
    return ExitStatus.VALID
