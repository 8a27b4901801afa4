"""`fencepost suite`."""

import json
import sys
from collections.abc import Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fencepost.commands import options as asking
from harness.common.errors import ExitStatus, UsageError
from harness.settings.kinds import Duration, OneOf, WholeNumber
from harness.settings.options import Options, parse_set, to_toml

if TYPE_CHECKING:
    from fencepost.suites.plan import SuitePlan, SuiteRequest
    from fencepost.suites.record import SuiteRecord
    from harness.results.suite import Suite

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
    help="any option of run.toml, for every run; it replaces the one in [defaults]",
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
    limit_s = None if limit is None else Duration().parse("limit", limit)
    at_once = None if jobs is None else WholeNumber(1, 256).parse("jobs", jobs)

    from fencepost.suites import plan as plans
    from fencepost.suites.record import (
        ALL,
        BAD,
        KEEP,
        SuiteRecord,
        create,
        folder_of,
        lock,
        remove_good_evidence,
    )
    from harness.results.suite import Suite

    keep = OneOf(KEEP).parse("keep-evidence", keep_evidence or ALL)
    judge = None if judge is None else OneOf(plans.JUDGES).parse("judge", judge)
    request = plans.SuiteRequest(asking.settle, options.seed, judge, name, [parse_set(one) for one in sets])
    suite_file = None if file is None else Path(file)
    with ExitStack() as stack:
        if resume is not None:
            _require_resumable(file, request)
            folder = folder_of(Path(resume))
            store = folder.parent.parent
            if not only_plan:  # no other process writes the record while it is read
                stack.enter_context(lock(folder))
            plan = plans.resume(Suite.load(folder), suite_file, request)
        elif suite_file is not None:
            store = Path(options.store)
            plan = plans.load(suite_file, request)
        else:
            raise UsageError(
                "name a suite file, as `fencepost suite nightly.toml`, or --resume and a suite's folder"
            )
        if only_plan:
            return _print_plan(plan, store, at_once, limit_s, as_json=as_json)
        if resume is not None:
            record = SuiteRecord(folder, plan.suite)
        else:
            record = create(store, plan.suite)
            stack.enter_context(lock(record.folder))
        resume_command = f"fencepost suite --resume {record.folder}"
        resume_command += f" --keep-evidence {BAD}" if keep == BAD else ""
        suite = _run(record, plan, given, at_once, limit_s, resume_command)
        if keep == BAD:
            print(remove_good_evidence(record), file=sys.stderr)
    _print_result(suite, record.folder, resume_command, as_json=as_json)
    return suite.exit_status


def _run(
    record: "SuiteRecord",
    plan: "SuitePlan",
    given: Mapping[str, Any],
    jobs: int | None,
    limit_s: float | None,
    resume_command: str,
) -> "Suite":
    """Run the suite. If that fails, say how to resume it."""
    from fencepost.suites.progress import progress_for
    from fencepost.suites.run import SuiteRun, SuiteSettings

    at_once = jobs or _at_once()
    spark = _spark(record.suite.spark, given)
    with ExitStack() as on_failure:
        on_failure.callback(print, f"fencepost: resume it with `{resume_command}`", file=sys.stderr)
        progress = on_failure.enter_context(closing(progress_for(sys.stderr)))
        progress.say(
            f"suite {record.suite.name}, seed {record.suite.seed}: {len(record.suite.cells)} runs, {at_once} side by "
            f"side, in {record.folder}"
        )
        record.change(spark={key: value for key, value in to_toml(spark).items() if key in SPARK})
        settings = SuiteSettings(at_once, limit_s, spark.master, spark.spark_conf)
        suite = SuiteRun(record, plan, settings, progress).run()
        on_failure.pop_all()
        progress.close()
    return suite


def _spark(stored: Mapping[str, Any], given: Mapping[str, Any]) -> Options:
    """Master and spark-conf: those that the suite began with, unless the command line replaces them."""
    options = Options().updated(stored)
    for values in asking.flag_values({key: given[key.replace("-", "_")] for key in SPARK}):
        options = options.updated(values)
    if options.missing_secrets:
        raise UsageError(
            f"this suite began with a secret in {', '.join(options.missing_secrets)}, which is not stored: "
            "give it again, by --master or --spark-conf"
        )
    return options


def _require_resumable(file: str | None, request: "SuiteRequest") -> None:
    """Raise `UsageError` for an option that only a new suite accepts."""
    if request.seed is not None:
        raise UsageError(
            "a suite goes on with its own seed: leave --seed out, or begin a new one without --resume"
        )
    if request.name is not None:
        raise UsageError(
            "a suite goes on under its own name: leave --name out, or begin a new one without --resume"
        )
    if request.sets and file is None:
        raise UsageError(
            "a suite goes on with the options that it began with: leave --set out, or name the suite file as well"
        )


def _print_plan(
    plan: "SuitePlan", store: Path, jobs: int | None, limit_s: float | None, *, as_json: bool
) -> ExitStatus:
    """Print the runs, each with the command that repeats it alone, and how long they probably take."""
    from fencepost.suites.forecast import preview
    from fencepost.suites.previous import previous_suites
    from harness.environment.doctor import MEMORY_MB
    from harness.environment.resources import free_memory_mb

    previous = previous_suites(store, plan.suite.name, plan.suite.started)
    shown = preview(plan, previous, jobs or _at_once(), free_memory_mb() // MEMORY_MB, limit_s)
    if as_json:
        print(json.dumps(shown.suite.as_json(), ensure_ascii=False, indent=1))
    else:
        print(*shown.lines(), sep="\n")
    return ExitStatus.VALID


def _at_once() -> int:
    """The number of runs for which there are memory and cores."""
    from harness.environment.doctor import MEMORY_MB
    from harness.environment.resources import max_parallel_runs

    return max_parallel_runs(MEMORY_MB, cores=2)


def _print_result(suite: "Suite", folder: Path, resume_command: str, *, as_json: bool) -> None:
    """Print each run that somebody has to look at, remarks, the counts, and the paths."""
    from harness.results.suite import CellState
    from harness.results.wording import printable
    from reports.suites.wording import headline, lead, since, worst_first

    words = sys.stderr if as_json else sys.stdout
    for cell in worst_first(suite.cells):
        new = " (new)" if cell.new else ""
        print(f"  {cell.state}{new}: {printable(cell.name, 200)}: {printable(cell.reason, 300)}", file=words)
        if lead(cell):
            print(f"    {lead(cell)}", file=words)
        print(f"    repeat: {printable(cell.command, 4000)}", file=words)
    for remark in suite.remarks:
        print(f"  note: {printable(remark, 400)}", file=words)
    new = since(suite)
    print(f"suite    {suite.name}: {headline(suite)}{f'; {new}' if new else ''}", file=words)
    print(f"page     {folder / 'index.html'}", file=words)
    left = sum(cell.state in (CellState.NOT_RUN, CellState.NOT_JUDGED) for cell in suite.cells)
    if left:
        print(f"resume   {resume_command}", file=words)
    if as_json:
        print(json.dumps(suite.as_json(), ensure_ascii=False))
