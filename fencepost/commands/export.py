"""`fencepost export`."""

import gzip
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

import click

from fencepost.checks.evidence import require_tables, wall_ms_at_zero
from fencepost.checks.run_folders import find_run
from harness.common.errors import ExitStatus, UsageError
from harness.common.wording import check_name, plural, printable, size
from harness.record.table_reader import RunTables
from harness.results.verdict import Verdict
from reports.pictures.perfetto import write_trace
from reports.story.run import Story

if TYPE_CHECKING:
    from reports.pictures.perfetto import TraceSummary
    from reports.story.run import Story

FORMATS = ("perfetto",)
DEFAULT_FILE = "trace.json.gz"
_COMPRESSION = 5  # half the time of 9, and a tenth more bytes


@click.command("export", short_help="Write a stored run as a trace for Perfetto.")
@click.argument("store", metavar="STORE")
@click.option(
    "--format", "format_", default="perfetto", show_default=True, help="format of the trace: perfetto"
)
@click.option(
    "--out",
    metavar="FILE",
    help=f"the file to write, compressed with gzip; by default {DEFAULT_FILE} in the run",
)
def command(store: str, format_: str, out: str | None) -> ExitStatus:
    """Write a stored run as a trace that https://ui.perfetto.dev opens, in the Trace Event Format.

    The trace has a track for each process, transactional id, partition, reader and fault, and for the requests that a
    rule changed. Arrows lead from an input to the output that was made from it, to its marker and to its reader. A
    large run is sampled: rows near faults and findings come first. The command says what is left out. The trace holds
    no content of records. No Spark is needed.

    \b
    Example:
      fencepost export store/latest
      fencepost export store/latest --format perfetto --out run.json.gz
    """
    check_name("format", format_, FORMATS)
    folder = find_run(store)

    zero_ms = wall_ms_at_zero(folder)
    require_tables(folder)
    stored = folder / "verdict.json"
    verdict = Verdict.load(stored) if stored.exists() else None
    path = Path(out) if out is not None else folder / DEFAULT_FILE
    story = Story(RunTables(folder, zero_ms), verdict.faults if verdict else None)
    summary = _write(path, story, verdict)
    print(f"{plural(summary.events, 'event')}, {size(path.stat().st_size)}")
    for name, lines in (("left out", summary.left_out), ("missing", summary.missing)):
        for line in lines:
            print(f"{name}: {printable(line, 400)}")
    print("open it in https://ui.perfetto.dev, which reads it in the browser and does not upload it")
    print(path)
    return ExitStatus.VALID


def _write(path: Path, story: "Story", verdict: Verdict | None) -> "TraceSummary":
    """Write the file completely or not at all. Raises `UsageError` if it cannot be written."""
    part = path.with_name(f"{path.name}.part") if path.name else path
    try:
        if path.is_dir():
            raise IsADirectoryError(None, "it is a folder")
        try:
            with gzip.open(part, "wb", _COMPRESSION) as stream:
                summary = write_trace(cast(IO[bytes], stream), story, verdict)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"{path} cannot be written ({error.strerror}): name a file with --out") from error
    return summary
