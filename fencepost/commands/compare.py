"""`fencepost compare`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fencepost.checks.run_folders import find_run
from fencepost.commands import output
from harness.common.errors import ExitStatus, UnreadableInput, UsageError
from harness.record.run_tables import PLAN
from harness.results.suite import SUITE_FILE
from reports.compare.comparison import compare
from reports.compare.sides import read_run, read_suite
from reports.compare.text import lines
from reports.html.compare import draw

if TYPE_CHECKING:
    from reports.compare.comparison import Comparison


@click.command("compare", short_help="Show two runs, or two suites, next to each other.")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option(
    "--json", "as_json", is_flag=True, help="print the comparison as JSON; messages go to standard error"
)
@click.option("--out", metavar="FILE", help="write the comparison as a page, too")
def command(a: str, b: str, as_json: bool, out: str | None) -> ExitStatus:
    """Show two stored runs, or two suites, next to each other.

    A and B are the folders of two runs, or of two suites. The tables show verdicts and anomalies, throughput and commit
    latency, the recovery from each fault, and the versions and settings that differ. Faults are paired by their kind
    and order. For suites, cells are paired by their names and runs by their seeds. A figure of a cell is the median
    over its seeds. A figure without evidence is "not known".

    The command compares and decides nothing.

    Exit status: 0, also for invalid runs, 2 wrong usage or input that cannot be read, 4 failure.

    \b
    Example:
      fencepost compare store/shop/20261121T100000Z store/shop/20261122T100000Z
      fencepost compare store/kafka-3.9.2/latest store/librdkafka/latest --out compared.html
    """
    folders = [_folder(path) for path in (a, b)]
    if folders[0].resolve() == folders[1].resolve():
        raise UsageError(f"{a} and {b} are the same folder: name two runs, or two suites")
    are_suites = [(folder / SUITE_FILE).is_file() for folder in folders]
    if are_suites[0] is not are_suites[1]:
        suite, run = (a, b) if are_suites[0] else (b, a)
        raise UsageError(
            f"{suite} is a suite and {run} is a run: name two runs, or two suites; the runs of the suite are in "
            f"{suite}/runs"
        )
    page = None if out is None else output.page_path(out)

    read = read_suite if are_suites[0] else read_run
    comparison = compare(*(read(path, folder) for path, folder in zip((a, b), folders, strict=True)))
    _print(comparison, as_json=as_json)
    if page is not None:
        output.write_page(page, draw(comparison), as_json=as_json)
    return ExitStatus.VALID


def _folder(path: str) -> Path:
    """The folder of a run or of a suite. Raises `UnreadableInput` if it is neither."""
    folder = Path(path)
    if path and (folder / SUITE_FILE).is_file():
        return folder
    if path and folder.exists() and not (folder / PLAN).is_file():
        raise UnreadableInput(
            f"{path} is neither a run (there is no {PLAN}) nor a suite (there is no {SUITE_FILE}): name the folder of "
            "a run or of a suite, such as store/NAME/TIME"
        )
    return find_run(path)


def _print(comparison: "Comparison", *, as_json: bool) -> None:
    if as_json:
        output.print_json(comparison.as_json())
    else:
        print(*lines(comparison), sep="\n")
