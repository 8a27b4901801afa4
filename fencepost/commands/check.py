"""`fencepost check`."""

import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import click

from fencepost.commands import asking, telling
from fencepost.progress import progress_for
from fencepost.stores import expand
from harness.errors import ExitStatus
from harness.verdict import Verdict, worst_status

Judged = tuple[str, Verdict | None, str | None, ExitStatus]


@click.command("check")
@click.argument("stores", metavar="STORE...", nargs=-1, required=True)
@asking.option_flags("master", "spark-conf")
@asking.json_flag
def command(stores: tuple[str, ...], as_json: bool, **given: Any) -> ExitStatus:
    """Judge stored runs again, any number in one job, without a cluster.

    STORE is the folder of one run, or one that holds such folders; each gets its line, newest last.

    Exit status: 0 valid, 1 invalid, 2 cannot be read, 3 unknown, 4 failure; of several the first of
    4, 2, 1, 3, 0 that occurred.

    \b
    Example:
      fencepost check store/latest
      fencepost check store --json
    """
    options = asking.options_from(given, sets=(), config=None)
    asked = [history for store in stores for history in expand(store)]
    folders = [history.folder for history in asked if history.folder is not None]
    judged: Iterator[Judged] = iter(())
    if folders:
        from fencepost.judge import check

        with closing(progress_for(sys.stderr)) as progress:
            judged = iter(
                check(folders, master=options.master, spark_conf=options.spark_conf, progress=progress)
            )
    statuses = []
    for history in asked:
        verdict, error, status = None, history.error, ExitStatus.USAGE
        if history.folder is not None:
            _, verdict, error, status = next(judged)
            verdict = verdict and replace(verdict, history=history.history)
        telling.tell_history(history.history, verdict, error, as_json=as_json)
        statuses.append(status)
    return worst_status(statuses)
