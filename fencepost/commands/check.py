"""`fencepost check`."""

import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from fencepost.commands import asking, telling
from fencepost.progress import progress_for
from fencepost.stores import expand
from harness.errors import ExitStatus
from harness.verdict import worst_status

if TYPE_CHECKING:
    from fencepost.judge import Answer


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
    judged: Iterator[Answer] = iter(())
    if folders:
        from fencepost.judge import check

        with closing(progress_for(sys.stderr)) as progress:
            judged = iter(
                check(folders, master=options.master, spark_conf=options.spark_conf, progress=progress)
            )
    statuses = []
    for history in asked:
        if history.folder is None:
            telling.tell_history(history.history, None, history.error, as_json=as_json)
            statuses.append(ExitStatus.USAGE)
            continue
        answer = next(judged)
        verdict = answer.verdict and replace(answer.verdict, history=history.history)
        telling.tell_history(history.history, verdict, answer.error, as_json=as_json)
        statuses.append(answer.status)
    return worst_status(statuses)
