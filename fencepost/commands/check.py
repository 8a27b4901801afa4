"""`fencepost check`."""

import sys
from contextlib import closing
from typing import Any

import click

from fencepost import registry
from fencepost.checks.run_folders import find_histories
from fencepost.commands import options as asking
from fencepost.commands import output as telling
from fencepost.runs.progress import progress_for
from harness.common.errors import ExitStatus, UsageError
from harness.common.names import check_name
from harness.results.verdict import worst_status


@click.command("check", short_help="Judge stored runs and external histories.")
@click.argument("histories", metavar="STORE|HISTORY...", nargs=-1, required=True)
@click.option("--allow", metavar="NAME,...", default="", help="anomalies that do not make a history invalid")
@click.option("--update", is_flag=True, help="write verdict.json and the report of stored runs anew")
@click.option("--blind", is_flag=True, help="judge stored runs without the journals of their workers")
@asking.option_flags("master", "spark-conf")
@asking.json_flag
def command(
    histories: tuple[str, ...], allow: str, update: bool, blind: bool, as_json: bool, **given: Any
) -> ExitStatus:
    """Judge stored runs, and external histories, any number in one job, without a cluster.

    STORE is the folder of one run, or one that holds such folders; each gets its line, newest last.
    HISTORY is a file of JSON Lines (.jsonl), or Jepsen's history.edn, plain or gzipped (.gz), or a folder
    of Parquet tables (docs/histories.md), which may lie at a URL (s3a://...).

    Exit status: 0 valid, 1 invalid, 2 cannot be read, 3 unknown, 4 failure; of several the first of
    4, 2, 1, 3, 0 that occurred.

    \b
    Example:
      fencepost check store/latest --update
      fencepost check store/latest --blind
      fencepost check history.edn --allow poll-skip
      fencepost check store more/*.jsonl.gz --json
      fencepost check s3a://bucket/night --master spark://host:7077
    """
    options = asking.options_from(given, sets=(), config=None)
    allowed = frozenset(name.strip() for name in allow.split(",") if name.strip())
    for name in sorted(allowed):
        check_name("anomaly", name, registry.anomalies())
    if blind and update:
        raise UsageError("--update writes the verdict of the whole evidence: leave out --blind, or --update")
    asked = [history for path in histories for history in find_histories(path)]
    if update and (others := [one.history for one in asked if one.file is not None]):
        print(f"fencepost: --update is for stored runs, and {others[0]} is none", file=sys.stderr)

    from fencepost.checks.check import Results, check, status_of

    told: Results = []

    def tell(answers: Results) -> None:
        progress.close()
        for history, answer in zip(asked, answers, strict=True):
            telling.print_history(history.history, answer, as_json=as_json, stored=history.folder is not None)
        sys.stdout.flush()
        told.extend(answers)

    with closing(progress_for(sys.stderr)) as progress:
        check(
            asked,
            allow=allowed,
            master=options.master,
            spark_conf=options.spark_conf,
            progress=progress,
            tell=tell,
            update=update,
            blind=blind,
        )
    return worst_status(map(status_of, told))
