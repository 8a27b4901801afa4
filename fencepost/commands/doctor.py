"""`fencepost doctor`."""

from pathlib import Path

import click

from harness.common.errors import ExitStatus


@click.command("doctor", short_help="Say what is here and what is missing.")
@click.option("--pipeline", metavar="FILE", help="look at a pipeline.toml of your own instead")
def command(pipeline: str | None) -> ExitStatus:
    """Say what is here, what is missing, and how to get it.

    What is marked `later` is fetched or built by the first run.

    Exit status: 0 if a run can start, 4 if something is missing, 2 if a pipeline cannot be used as it is described.

    \b
    Example:
      fencepost doctor
      fencepost doctor --pipeline pipeline.toml
    """
    from harness.environment.doctor import examine as examine_machine
    from workloads.custom.examine import examine

    parts = examine_machine() if pipeline is None else list(examine(Path(pipeline)))
    width = max(len(part.name) for part in parts)
    for part in parts:
        mark = "later" if part.later else "ok" if part.ok else "no"
        print(f"{mark:<5} {part.name:<{width}}  {part.found}")
        if part.advice:
            print(f"      {'':<{width}}  {part.advice}")
    if all(part.ok for part in parts):
        return ExitStatus.VALID
    return ExitStatus.FAILURE if pipeline is None else ExitStatus.USAGE
