"""`fencepost suite`."""

import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fencepost.commands import options as asking
from harness.errors import ExitStatus, UsageError
from harness.settings.kinds import Length, OneOf, Whole
from harness.settings.options import Options, parse_set, to_toml

if TYPE_CHECKING:
    from fencepost.suites.folder import Book
    from fencepost.suites.plan import Asked, Planned
    from harness.suite import Suite

SPARK = ("master", "spark-conf")


@click.command("suite", short_help="Carry out a matrix of runs, on one page.")
@click.argument("file", metavar="SUITE.toml", required=False)
@click.option("--resume", metavar="FOLDER", help="resume a suite that was interrupted or killed")
@click.option("--jobs", metavar="N", help="runs side by side, at most  [default: as memory and cores permit]")
@click.option(
    "--judge", metavar="WHEN", help="together: all runs in one job at the end; each: each as it ends"
)
@click.option(
    "--limit",
    metavar="TIME",
    help="start only runs that can end within this time (90m, 2h); the longest not run come first",
)
@asking.option_flags("seed", "store", "master", "spark-conf")
@click.option(
    "--set",
    "sets",
    metavar="KEY=VALUE",
    multiple=True,
    help="any option of test.toml, for every run; it replaces the one in [defaults]",
)
@click.option("--name", metavar="NAME", help="the suite's name, in the place of the one in the file")
@click.option(
    "--keep-evidence",
    metavar="WHAT",
    help="all: of every run; bad: of those alone that somebody has to look at  [default: all]",
)
@click.option("--plan", "only_plan", is_flag=True, help="list the runs and how long they take; start none")
@click.option("--json", "as_json", is_flag=True, help="print suite.json; words go to standard error")
def command(
    file: str | None,
    resume: str | None,
    jobs: str | None,
    judge: str | None,
    limit: str | None,
    sets: tuple[str, ...],
    name: str | None,
    keep_evidence: str | None,
    only_plan: bool,
    as_json: bool,
    **given: Any,
) -> ExitStatus:
    """Carry out a matrix of runs, judge them together, and leave one folder with one page.

    SUITE.toml names workloads, faults, clients and versions, whose lists multiply, the failures that are known, and the
    planted defects that are expected (docs/suites.md). The folder, STORE/NAME/TIME, holds index.html, junit.xml,
    summary.md, suite.json, and the runs.

    Exit status: of all runs together the first of 4, 1, 3, 0 that occurred. A known failure and a planted defect that
    was caught count as 0, a planted defect that was missed as 1.

    \b
    Example:
      fencepost suite suites/smoke.toml
      fencepost suite suites/nightly.toml --limit 2h --jobs 4
      fencepost suite suites/nightly.toml --plan
      fencepost suite suites/nightly.toml --set kafka=4.1.2 --name nightly-4-1-2
      fencepost suite --resume store/nightly/20261124T200000Z
    """
    options = asking.options_from(given, sets=(), config=None)
    limit_s = None if limit is None else Length().parse("limit", limit)
    at_once = None if jobs is None else Whole(1, 256).parse("jobs", jobs)

    from fencepost.suites.folder import found
    from fencepost.suites.keeping import ALL, BAD, KEEP, keep_bad
    from fencepost.suites.plan import JUDGES, Asked

    keep = OneOf(KEEP).parse("keep-evidence", keep_evidence or ALL)
    judge = None if judge is None else OneOf(JUDGES).parse("judge", judge)
    asked = Asked(asking.settled, options.seed, judge, name, [parse_set(one) for one in sets])
    if resume is not None:
        _require_goes_on(file, asked)
    with ExitStack() as held:
        if resume is not None and not only_plan:  # its record is read once nobody else writes it
            held.enter_context(_alone(Path(resume)))
        planned, book = _begun(file, resume, options.store, asked, only_plan=only_plan)
        if only_plan or book is None:
            store = Path(options.store) if resume is None else found(Path(resume)).parent.parent
            return _tell_plan(planned, store, at_once, limit_s, as_json=as_json)
        if resume is None:
            held.enter_context(_alone(book.folder))
        resumed = _repeat(book, keep)
        suite = _carried_out(book, planned, given, at_once, limit_s, resumed)
        if keep == BAD:
            print(keep_bad(book), file=sys.stderr)
    _tell(suite, book.folder, resumed, as_json=as_json)
    return suite.exit_status


def _alone(folder: Path) -> AbstractContextManager[None]:
    """For the length of a `with`, nobody else carries the suite in that folder out. Raises `UsageError`."""
    from fencepost.suites.folder import alone, found

    return alone(found(folder))


def _repeat(book: "Book", keep: str) -> str:
    from fencepost.suites.conduct import repeat_words
    from fencepost.suites.keeping import BAD

    return repeat_words(book.folder, f" --keep-evidence {BAD}" if keep == BAD else "")


def _carried_out(
    book: "Book",
    planned: "Planned",
    given: Mapping[str, Any],
    jobs: int | None,
    limit_s: float | None,
    resumed: str,
) -> "Suite":
    """The suite, once all of it that can be is over."""
    from fencepost.suites.conduct import How, conduct
    from fencepost.suites.telling import progress_for

    at_once = jobs or _at_once()
    spark = _spark(book.suite.spark, given)
    with ExitStack() as cut_off:
        cut_off.callback(print, f"fencepost: resume it with `{resumed}`", file=sys.stderr)
        progress = cut_off.enter_context(closing(progress_for(sys.stderr)))
        progress.say(
            f"suite {book.suite.name}, seed {book.suite.seed}: {len(book.suite.cells)} runs, {at_once} side by side, "
            f"in {book.folder}"
        )
        book.change(spark={key: value for key, value in to_toml(spark).items() if key in SPARK})
        suite = conduct(book, planned, How(at_once, limit_s, spark.master, spark.spark_conf), progress)
        cut_off.pop_all()  # it came to its end
        progress.close()
    return suite


def _spark(stored: Mapping[str, Any], given: Mapping[str, Any]) -> Options:
    """Master and spark-conf: of a suite that goes on as it began, unless the command says otherwise now."""
    options = Options().updated(stored)
    for values in asking.flag_values({key: given[key.replace("-", "_")] for key in SPARK}):
        options = options.updated(values)
    if options.withheld:
        raise UsageError(
            f"this suite began with a secret in {', '.join(options.withheld)}, which is not stored: give it again, by "
            "--master or --spark-conf"
        )
    return options


def _require_goes_on(file: str | None, asked: "Asked") -> None:
    """Raise `UsageError` for what only a new suite is given."""
    if asked.seed is not None:
        raise UsageError(
            "a suite goes on with its own seed: leave --seed out, or begin a new one without --resume"
        )
    if asked.name is not None:
        raise UsageError(
            "a suite goes on under its own name: leave --name out, or begin a new one without --resume"
        )
    if asked.sets and file is None:
        raise UsageError(
            "a suite goes on with the options that it began with: leave --set out, or name the suite file as well"
        )


def _begun(
    file: str | None, resume: str | None, store: str, asked: "Asked", *, only_plan: bool
) -> "tuple[Planned, Book | None]":
    """A new suite, or one that goes on."""
    from fencepost.suites import plan, resuming
    from fencepost.suites.folder import Book, create, found
    from harness.suite import Suite

    if resume is None and file is None:
        raise UsageError(
            "name a suite file, as `fencepost suite nightly.toml`, or --resume and a suite's folder"
        )
    if resume is None:
        planned = plan.load(Path(str(file)), asked)
        return planned, None if only_plan else create(Path(store), planned.suite)
    folder = found(Path(resume))
    stored = Suite.load(folder)
    if file is None:
        planned = resuming.again(stored, asked)
    else:
        now = plan.load(Path(file), resuming.asked_again(stored, asked))
        planned = resuming.going_on(stored, now)
    return planned, Book(folder, planned.suite)


def _tell_plan(
    planned: "Planned", store: Path, jobs: int | None, limit_s: float | None, *, as_json: bool
) -> ExitStatus:
    """The runs, each with the command that is this run alone, and how long they will probably take."""
    import json

    from fencepost.suites.folder import earlier
    from fencepost.suites.past import MOST
    from fencepost.suites.preview import preview
    from harness.environment.doctor import MEMORY_MB
    from harness.environment.resources import free_memory_mb

    past = earlier(store, planned.suite.name, planned.suite.started, MOST)
    told = preview(planned, past, jobs or _at_once(), free_memory_mb() // MEMORY_MB, limit_s)
    if as_json:
        print(json.dumps(told.suite.as_json(), ensure_ascii=False, indent=1))
        return ExitStatus.VALID
    for line in told.lines():
        print(line)
    return ExitStatus.VALID


def _at_once() -> int:
    """Runs side by side, as memory and cores permit."""
    from harness.environment.doctor import MEMORY_MB
    from harness.environment.resources import side_by_side

    return side_by_side(MEMORY_MB, cores=2)


def _tell(suite: "Suite", folder: Path, resume: str, *, as_json: bool) -> None:
    """The last lines: each run that somebody has to look at, remarks, the counts, and where all is."""
    import json

    from harness.suite import State
    from harness.telling.words import printable
    from reports.suites.lines import lead, since
    from reports.suites.summary import headline, worst_first

    words = sys.stderr if as_json else sys.stdout
    for cell in worst_first(suite.cells):
        new = " (new)" if cell.new else ""
        print(f"  {cell.state}{new}: {printable(cell.name, 200)}: {printable(cell.reason, 300)}", file=words)
        if lead(cell):
            print(f"    {lead(cell)}", file=words)
        print(f"    repeat: {printable(cell.command, 4000)}", file=words)
    for remark in suite.remarks:
        print(f"  note: {printable(remark, 400)}", file=words)
    news = since(suite)
    print(f"suite    {suite.name}: {headline(suite)}{f'; {news}' if news else ''}", file=words)
    print(f"page     {folder / 'index.html'}", file=words)
    left = sum(cell.state in (State.NOT_RUN, State.NOT_JUDGED) for cell in suite.cells)
    if left:
        print(f"resume   {resume}", file=words)
    if as_json:
        print(json.dumps(suite.as_json(), ensure_ascii=False))
