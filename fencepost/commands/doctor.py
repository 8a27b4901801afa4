"""`fencepost doctor`."""

from pathlib import Path

import click

from harness.common.errors import ExitStatus
from harness.environment.doctor import examine as examine_machine
from workloads.custom.examine import examine


@click.command("doctor", short_help="List what a run needs, and what is missing.")
@click.option("--pipeline", metavar="FILE", help="examine this pipeline.toml instead of the machine")
def command(pipeline: str | None) -> ExitStatus:
    """List what a run needs: what is installed, what is missing, and how to get it.

    The first run downloads or builds the parts that are marked `later`.

    Exit status: 0 if a run can start, 4 if something is missing, 2 if the pipeline cannot be used as described.

    \b
    Example:
      fencepost doctor
      fencepost doctor --pipeline pipeline.toml
    """
    parts = examine_machine() if pipeline is None else list(examine(Path(pipeline)))
    width = max(len(part.name) for part in parts)
    for part in parts:
        mark = "later" if part.later else "ok" if part.ok else "no"
        print(f"{mark:<5} {part.name:<{width}}  {part.state}")
        if part.advice:
            print(f"      {'':<{width}}  {part.advice}")
    if all(part.ok for part in parts):
        return ExitStatus.VALID
    return ExitStatus.FAILURE if pipeline is None else ExitStatus.USAGE
