"""`fencepost reproducer`."""

import sys
from pathlib import Path

import click

from checkers.registry import checker_of
from fencepost.checks.run_folders import find_run
from harness.common.errors import ExitStatus
from harness.record.run_tables import require_verdict
from harness.results.example import Example
from harness.results.verdict import Verdict
from harness.settings.options import Options, to_toml
from reports.reproducer.folder import require_reproducible, write_reproducer

FOLDER = "reproducer"
"""The default: a folder in the folder of the run, because in the store it would count as a run."""


@click.command("reproducer", short_help="Make a folder from an invalid run, to attach to a bug report.")
@click.argument("store", metavar="STORE")
@click.option("--out", metavar="FOLDER", help="the new folder  [default: STORE/reproducer]")
@click.option("--with-values", is_flag=True, help="show keys and values of records, instead of their digests")
@click.option("--force", is_flag=True, help="also for a run whose verdict is unknown")
def command(store: str, out: str | None, with_values: bool, force: bool) -> ExitStatus:
    """Make a folder for the public from an invalid run, which a maintainer of Kafka or of a client can run.

    README.md says what was seen and how to repeat it, and has the smallest finding step by step, with lines of the logs
    around it. `fencepost replay FOLDER` repeats the run. For your own pipeline (run --pipeline), the folder has the
    pipeline file and the sources beside it.

    Secrets, environment variables, hosts, users and paths are replaced, and contents of records by digests. Read the
    folder before you publish it: a program may print anything.

    Exit status: 0 made, 2 there is nothing to reproduce or STORE cannot be read, 4 a failure.

    \b
    Example:
      fencepost reproducer store/latest
      fencepost reproducer store/latest --out ticket --with-values
    """
    folder = find_run(store)
    require_verdict(folder)
    verdict = Verdict.load(folder / "verdict.json")

    def describe(anomaly: str, example: Example) -> str:
        return checker_of(anomaly).wording(anomaly).sentence(example)

    require_reproducible(folder, verdict, force=force)
    output = Path(out) if out is not None else folder / FOLDER
    notes = write_reproducer(folder, verdict, output, describe, to_toml(Options()), with_values=with_values)
    for note in notes:
        print(note, file=sys.stderr)
    print(output)
    return ExitStatus.VALID
