"""`fencepost hold`, which no user calls: the cluster of a pytest session."""

import sys
from contextlib import closing

import click

from fencepost import registry
from fencepost.commands import options as asking
from fencepost.progress import LineProgress
from harness.errors import ExitStatus


@click.command("hold", hidden=True)
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="what the cluster is to be")
def command(sets: tuple[str, ...]) -> ExitStatus:
    """Start a cluster, say where it is, and end it when standard input ends."""
    options = asking.options_from({}, sets, None).validated(registry.known())

    from fencepost.sessions.held import hold

    with closing(LineProgress(sys.stderr)) as progress:
        hold(options, progress)
    return ExitStatus.VALID
