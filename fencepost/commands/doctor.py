"""`fencepost doctor`."""

import click

from harness.errors import ExitStatus


@click.command("doctor")
def command() -> ExitStatus:
    """Say what is here, what is missing, and how to get it.

    Exit status: 0 if a run can start, 4 if something is missing.

    \b
    Example:
      fencepost doctor
    """
    from harness.environment.doctor import examine

    parts = examine()
    width = max(len(part.name) for part in parts)
    for part in parts:
        print(f"{'ok ' if part.ok else 'no '} {part.name:<{width}}  {part.found}")
        if part.advice:
            print(f"    {'':<{width}}  {part.advice}")
    return ExitStatus.VALID if all(part.ok for part in parts) else ExitStatus.FAILURE
