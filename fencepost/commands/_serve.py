"""`fencepost _serve`: the server that runs and checks of a session share. Only Fencepost itself starts it."""

import socket
from pathlib import Path

import click

from harness.common.errors import ExitStatus


@click.command("_serve", hidden=True)
@click.argument("path", type=click.Path(path_type=Path))
@click.argument("listener", type=int)
def command(path: Path, listener: int) -> ExitStatus:
    """Serve on the socket PATH, which is open as the file descriptor LISTENER, until standard input ends."""
    from fencepost.shared_server import serve

    serve(path, socket.socket(fileno=listener))
    return ExitStatus.VALID
