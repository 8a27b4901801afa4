"""`fencepost suite`."""

import sys
from collections.abc import Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fencepost import cli as command_flags
from fencepost.commands import options as cli_options
from fencepost.commands import output
from fencepost.suites.record import (
    ALL,
    BAD,
    KEEP,
    SuiteRecord,
    create,
    folder_of,
    lock,
    previous_suites,
    remove_good_evidence,
)
from harness.common.documents import encode
from harness.common.errors import ExitStatus, UsageError
from harness.common.machine import free_memory_mb, max_parallel
from harness.common.wording import printable
from harness.environment.doctor import MEMORY_MB
from harness.results.suite import CellState, Suite
from harness.settings.kinds import Duration, OneOf, WholeNumber
from harness.settings.options import Options, parse_set, to_toml
from reports.suites.wording import headline, lead, since, worst_first

if TYPE_CHECKING:
    from fencepost.suites.plan import SuitePlan, SuiteRequest

SPARK = ("master", "spark-conf")


@click.command("suite", short_help="Run a matrix of runs, with one result page.")
@click.argument("file", metavar="SUITE.toml", required=False)
@click.option(
    "--resume", metavar="FOLDER", help="resume the suite in this folder, after it was interrupted or killed"
)
@click.option(
    "--jobs", metavar="N", help="maximum number of concurrent runs  [default: as memory and cores permit]"
)
@click.option(
    "--judge",
    metavar="WHEN",
    help="together: check all runs in one job at the end; each: check each run when it ends",
)
@click.option(
    "--limit",
    metavar="TIME",
    help="start only runs that can end within this time (90m, 2h); start with those that ran longest ago",
)
@command_flags.option_flags("seed", "store", "master", "spark-conf")
@click.option(
    "--set",
    "sets",
    metavar="KEY=VALUE",
    multiple=True,
    help="an option of run.toml, for every run; replaces the value in [defaults]",
)
@click.option("--name", metavar="NAME", help="name of the suite; replaces the name in the file")
@click.option(
    "--keep-evidence",
    metavar="WHAT",
    help="all: keep the evidence of every run; bad: only of runs that need a look  [default: all]",
)
@click.option("--plan", "only_plan", is_flag=True, help="list the runs and their estimated duration only")
@click.option("--json", "as_json", is_flag=True, help="print suite.json; messages go to standard error")
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
    **flags: Any,
) -> ExitStatus:
    """Run a matrix of runs, check them together, and write one folder with one result page.

    SUITE.toml lists workloads, faults, clients and versions. The suite runs every combination of them. The file also
    lists known failures, and planted defects that must be found (docs/suites.md). The folder STORE/NAME/TIME contains
    index.html, junit.xml, summary.md, suite.json, and the runs.

    Exit status: the first of 4, 1, 3, 0 that occurred in any run. A known failure and a planted defect that was caught
    count as 0. A planted defect that was missed counts as 1.

    \b
    Example:
      fencepost suite suites/smoke.toml
      fencepost suite suites/nightly.toml --limit 2h --jobs 4
      fencepost suite suites/nightly.toml --plan
      fencepost suite suites/nightly.toml --set kafka=4.1.2 --name nightly-4-1-2
      fencepost suite --resume store/nightly/20261124T200000Z
    """
    options = cli_options.options_from(flags, sets=(), config=None)
    limit_s = None if limit is None else Duration().parse("limit", limit)
    max_jobs = None if jobs is None else WholeNumber(1, 256).parse("jobs", jobs)

    from fencepost.suites import plan as plans

    keep = OneOf(KEEP).parse("keep-evidence", keep_evidence or ALL)
    judge = None if judge is None else OneOf(plans.CHECK_TIMES).parse("judge", judge)
    request = plans.SuiteRequest(
        cli_options.settle, options.seed, judge, name, [parse_set(assignment) for assignment in sets]
    )
    suite_file = None if file is None else Path(file)
    with ExitStack() as stack:
        folder, plan = _plan(stack, resume, suite_file, request, only_plan=only_plan)
        store = Path(options.store) if folder is None else folder.parent.parent
        if only_plan:
            return _print_plan(plan, store, max_jobs, limit_s, as_json=as_json)
        if folder is not None:
            record = SuiteRecord(folder, plan.suite)
        else:
            record = create(store, plan.suite)
            stack.enter_context(lock(record.folder))
        resume_command = f"fencepost suite --resume {record.folder}"
        resume_command += f" --keep-evidence {BAD}" if keep == BAD else ""
        suite = _run(record, plan, flags, max_jobs, limit_s, resume_command)
        if keep == BAD:
            print(remove_good_evidence(record), file=sys.stderr)
    _print_result(suite, record.folder, resume_command, as_json=as_json)
    return suite.exit_status


def _plan(
    stack: ExitStack, resume: str | None, suite_file: Path | None, request: "SuiteRequest", *, only_plan: bool
) -> tuple[Path | None, "SuitePlan"]:
    """Plan a new suite, or the rest of the suite in the folder `resume`. Raises `UsageError`.

    Returns the folder and the plan. The folder is None for a new suite. The stack holds the lock of the folder, so that
    no other process writes the record after it was read.
    """
    from fencepost.suites import plan as plans

    if resume is not None:
        _require_resumable(suite_file, request)
        folder = folder_of(Path(resume))
        if not only_plan:
            stack.enter_context(lock(folder))
        return folder, plans.resume(Suite.load(folder), suite_file, request)
    if suite_file is not None:
        return None, plans.load(suite_file, request)
    raise UsageError(
        "no suite is named: name a suite file (`fencepost suite nightly.toml`), or use --resume FOLDER"
    )


def _run(
    record: SuiteRecord,
    plan: "SuitePlan",
    flags: Mapping[str, Any],
    jobs: int | None,
    limit_s: float | None,
    resume_command: str,
) -> Suite:
    """Run the suite. If that fails, say how to resume it."""
    from fencepost.suites.run import SuiteRun, SuiteSettings
    from fencepost.terminal_progress import suite_progress_for

    max_jobs = jobs or _default_jobs()
    spark = _spark(record.suite.spark, flags)
    with ExitStack() as on_failure:
        on_failure.callback(print, f"fencepost: resume it with `{resume_command}`", file=sys.stderr)
        progress = on_failure.enter_context(closing(suite_progress_for(sys.stderr)))
        progress.say(
            f"suite {record.suite.name}, seed {record.suite.seed}: {len(record.suite.cells)} runs, {max_jobs} side by "
            f"side, in {record.folder}"
        )
        record.change(spark={key: value for key, value in to_toml(spark).items() if key in SPARK})
        settings = SuiteSettings(max_jobs, limit_s, spark.master, spark.spark_conf)
        suite = SuiteRun(record, plan, settings, progress).run()
        on_failure.pop_all()
        progress.close()
    return suite


def _spark(stored: Mapping[str, Any], flags: Mapping[str, Any]) -> Options:
    """Options with `master` and `spark-conf` of the suite. The command line overrides them."""
    options = Options().updated(stored)
    for values in command_flags.flag_values({key: flags[key.replace("-", "_")] for key in SPARK}):
        options = options.updated(values)
    if options.missing_secrets:
        raise UsageError(
            f"this suite began with a secret in {', '.join(options.missing_secrets)}, which is not stored: "
            "give it again, by --master or --spark-conf"
        )
    return options


def _require_resumable(suite_file: Path | None, request: "SuiteRequest") -> None:
    """Raise `UsageError` for an option that only a new suite accepts."""
    if request.seed is not None:
        raise UsageError(
            "a resumed suite keeps its seed: leave out --seed, or begin a new suite without --resume"
        )
    if request.name is not None:
        raise UsageError(
            "a resumed suite keeps its name: leave out --name, or begin a new suite without --resume"
        )
    if request.sets and suite_file is None:
        raise UsageError("a resumed suite keeps its options: leave out --set, or name the suite file as well")


def _print_plan(
    plan: "SuitePlan", store: Path, jobs: int | None, limit_s: float | None, *, as_json: bool
) -> ExitStatus:
    """Print the estimated duration, and each run with the command that repeats it alone."""
    from fencepost.suites.run import preview

    previous = previous_suites(store, plan.suite.name, plan.suite.started)
    forecast = preview(plan, previous, jobs or _default_jobs(), free_memory_mb() // MEMORY_MB, limit_s)
    if as_json:
        output.print_json(encode(forecast.suite), indent=1)
    else:
        print(*forecast.lines(), sep="\n")
    return ExitStatus.VALID


def _default_jobs() -> int:
    """The number of concurrent runs for which memory and cores suffice."""
    return max_parallel(MEMORY_MB, processors=2)


def _print_result(suite: Suite, folder: Path, resume_command: str, *, as_json: bool) -> None:
    """Print each run that needs a look, the remarks, the counts, and the paths."""
    stream = sys.stderr if as_json else sys.stdout
    for cell in worst_first(suite.cells):
        new = " (new)" if cell.new else ""
        print(f"  {cell.state}{new}: {printable(cell.name, 200)}: {printable(cell.reason, 300)}", file=stream)
        if lead(cell):
            print(f"    {lead(cell)}", file=stream)
        print(f"    repeat: {printable(cell.command, 4000)}", file=stream)
    for remark in suite.remarks:
        print(f"  note: {printable(remark, 400)}", file=stream)
    new = since(suite)
    print(f"suite    {suite.name}: {headline(suite)}{f'; {new}' if new else ''}", file=stream)
    print(f"page     {folder / 'index.html'}", file=stream)
    unfinished = sum(cell.state in (CellState.NOT_RUN, CellState.NOT_CHECKED) for cell in suite.cells)
    if unfinished:
        print(f"resume   {resume_command}", file=stream)
    if as_json:
        output.print_json(encode(suite))
