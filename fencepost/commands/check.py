"""`fencepost check`."""

import shlex
import sys
from collections.abc import Collection, Sequence
from contextlib import closing
from functools import reduce
from pathlib import Path
from typing import Any

import click

from checkers.catalogue import catalogue
from fencepost import cli as command_flags
from fencepost.checks.run_folders import NamedHistory, find_histories
from fencepost.commands import output
from fencepost.commands.output import progress_for
from harness.common.errors import ExitStatus, UsageError
from harness.common.wording import check_name
from harness.results.verdict import Verdict, worst_status
from harness.settings.options import Options


@click.command("check", short_help="Check stored runs and external histories.")
@click.argument("histories", metavar="STORE|HISTORY...", nargs=-1, required=True)
@click.option("--allow", metavar="NAME,...", default="", help="anomalies that do not make a history invalid")
@click.option("--update", is_flag=True, help="write verdict.json and the report of stored runs again")
@click.option("--blind", is_flag=True, help="check stored runs without the journals of their workers")
@click.option("--out", metavar="FILE", help="write the report of one external history as a page, too")
@command_flags.option_flags("master", "spark-conf")
@command_flags.json_flag
def command(
    histories: tuple[str, ...],
    allow: str,
    update: bool,
    blind: bool,
    out: str | None,
    as_json: bool,
    **flags: Any,
) -> ExitStatus:
    """Check stored runs and external histories. One job checks all of them. No cluster is needed.

    STORE is the folder of a run, or a folder that contains such folders. Each run has a line in the output, the newest
    run last. HISTORY is a file of JSON Lines (.jsonl) or a history.edn of Jepsen, plain or gzipped (.gz). It can also
    be a folder of Parquet tables (docs/histories.md), or the URL of such a folder (s3a://...).

    Exit status: 0 valid, 1 invalid, 2 cannot be read, 3 unknown, 4 failure. For several histories it is the first of
    4, 2, 1, 3, 0 that occurred.

    \b
    Example:
      fencepost check store/latest --update
      fencepost check store/latest --blind
      fencepost check history.edn --allow poll-skip
      fencepost check history.edn --out report.html
      fencepost check store more/*.jsonl.gz --json
      fencepost check s3a://bucket/night --master spark://host:7077
    """
    options = reduce(Options.updated, command_flags.flag_values(flags), Options())
    allowed = frozenset(name.strip() for name in allow.split(",") if name.strip())
    for name in sorted(allowed):
        check_name("anomaly", name, [anomaly.name for anomaly in catalogue()])
    if blind and update:
        raise UsageError(
            "--update needs all evidence, and --blind ignores the journals: leave out one of the two"
        )
    named = [history for path in histories for history in find_histories(path)]
    page = None if out is None else _page_of_history(out, named)
    if update and (external := [history.history for history in named if history.file is not None]):
        print(f"fencepost: --update is for stored runs, and {external[0]} is not one", file=sys.stderr)

    from fencepost.checks.check import check, status_of

    with closing(progress_for(sys.stderr)) as progress:
        in_order = output.InOrder(named, progress, as_json=as_json)
        try:
            results = check(
                named,
                allow=allowed,
                master=options.master,
                spark_conf=options.spark_conf,
                progress=progress,
                on_result=in_order.add,
                update=update,
                blind=blind,
            )
        finally:
            in_order.print_rest()
    if page is not None and isinstance(result := results[0], Verdict):
        _write_page(page, result, allowed, as_json=as_json)
    return worst_status(map(status_of, results))


def _page_of_history(out: str, named: Sequence[NamedHistory]) -> Path:
    """Return the path of the page. Raises `UsageError` if it cannot be written, or if there is not one external history
    for it.
    """
    stored = next((history.history for history in named if history.folder is not None), None)
    if stored is not None:
        raise UsageError(
            f"--out is for an external history, and {stored} is a stored run: `fencepost report` writes its report"
        )
    if len(named) != 1:
        raise UsageError(f"--out is for one external history, and {len(named)} are named: name one")
    page = output.page_path(out)
    if isinstance(named[0].file, Path) and page.exists() and page.samefile(named[0].file):
        raise UsageError(f"--out {out} would overwrite the history: name another file")
    return page


def _write_page(page: Path, verdict: Verdict, allowed: Collection[str], *, as_json: bool) -> None:
    from reports.html.history import draw

    allowing = ["--allow", ",".join(sorted(allowed))] if allowed else []
    again = shlex.join(["fencepost", "check", verdict.history, *allowing, "--out", str(page)])
    output.write_page(page, draw(verdict, again), as_json=as_json)
