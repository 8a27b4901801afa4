"""`fencepost judge`, which no user calls: the judge that several runs share (`fencepost.shared_judge`)."""

from pathlib import Path

import click

from fencepost.judges.server import serve
from harness.errors import ExitStatus


@click.command("judge", hidden=True)
@click.argument("socket", type=click.Path(path_type=Path))
def command(socket: Path) -> ExitStatus:
    """Judge what is asked on SOCKET until standard input ends."""
    serve(socket)
    return ExitStatus.VALID
