"""`fencepost replay`."""

import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from fencepost import cli as command_flags
from fencepost.checks.run_folders import find_run
from fencepost.commands import options as cli_options
from fencepost.commands import output
from fencepost.commands.output import progress_for
from harness.common.errors import ExitStatus, UsageError
from harness.common.wording import redact_text
from harness.record.run_tables import PLAN
from harness.runner.schedule import Schedule
from harness.settings.options import Options, parse_set
from harness.settings.run_file import StoredPlan

SETTABLE = frozenset({"mirror", "broker", "spark-conf", "bootstrap", "client-config"})
"""Options that can contain a secret, which a run does not store, and the cluster, which a reproducer does not name."""


@click.command("replay", short_help="Run a stored run again, on a new cluster.")
@click.argument("store", metavar="STORE")
@command_flags.option_flags("master", "spark-conf")
@click.option(
    "--store",
    "new_store",
    metavar="DIR",
    help="keep the new run in this folder  [default: the store of the first run]",
)
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="KEY=VALUE",
    help="mirror, broker.NAME or spark.NAME, as in the first run; bootstrap and client-config of another cluster",
)
@click.option(
    "--without-defect",
    is_flag=True,
    help="run the pipeline without its defect, as a control of a run with --defect",
)
@command_flags.json_flag
def command(
    store: str,
    new_store: str | None,
    sets: tuple[str, ...],
    without_defect: bool,
    as_json: bool,
    **flags: Any,
) -> ExitStatus:
    """Repeat a stored run on a new cluster, with the same options and the same schedule of faults.

    A run does not store secrets such as passwords: set them again with --set. STORE may also be a folder that
    `fencepost reproducer` made.

    Exit status: as for `fencepost run`.

    \b
    Example:
      fencepost replay store/latest
      fencepost replay store/latest --without-defect
      fencepost replay store/shop/20261121T100000Z --json
    """
    folder = find_run(store)
    plan = StoredPlan.load(folder / PLAN)
    options = _with_own_pipeline(plan.options, folder)
    for values in [*map(_parse_assignment, sets), *command_flags.flag_values(flags)]:
        options = options.updated(values)
    if new_store is not None:
        options = options.updated({"store": new_store})
    if without_defect:
        options = _without_defect(options, store, has_faults=bool(plan.schedule))
    options = cli_options.settle(options)

    from fencepost.runs.carry_out import run

    with closing(progress_for(sys.stderr)) as progress:
        progress.say(f"replaying {store}, seed {options.seed}")
        verdict, new = run(
            options,
            progress,
            command=_command_line(folder, new_store, sets, flags, without_defect=without_defect),
            schedule=Schedule.from_tables(plan.schedule, plan.run.get("churn", ())),
        )
    output.print_run(verdict, new, f"fencepost replay {new}", as_json=as_json)
    return verdict.validity.exit_status


def _command_line(
    folder: Path,
    new_store: str | None,
    sets: Sequence[str],
    flags: Mapping[str, Any],
    *,
    without_defect: bool,
) -> str:
    """The command that repeats this replay, without secrets. (`fencepost run` would draw new faults.)"""
    path, cwd = folder.resolve(), Path.cwd().resolve()  # resolved, because `latest` will be another run
    path = path.relative_to(cwd) if path.is_relative_to(cwd) else path
    words = ["fencepost", "replay", str(path)]
    words += ["--without-defect"] if without_defect else []
    words += [] if new_store is None else ["--store", new_store]
    for flag, texts in {
        "--set": sets,
        **{f"--{key.replace('_', '-')}": text for key, text in flags.items()},
    }.items():
        for text in [texts] if isinstance(texts, str) else texts or ():
            words += [flag, redact_text(text)]
    return shlex.join(words)


def _with_own_pipeline(options: Options, folder: Path) -> Options:
    """Options whose pipeline file is in the folder, if it has one of this name: the folder is a reproducer then."""
    if options.pipeline is None or Path(options.pipeline).is_absolute():
        return options
    own = folder / options.pipeline
    return replace(options, pipeline=str(own)) if own.is_file() else options


def _without_defect(options: Options, store: str, *, has_faults: bool) -> Options:
    """The options of the control run. Raises `UsageError` if the run had no defect."""
    if options.defect is None:
        raise UsageError(f"{store} had no defect: leave out --without-defect")
    # Some defects need no fault. Then ask for none, because otherwise a verdict would require the default faults.
    return replace(options, defect=None, nemesis=options.nemesis if has_faults else ("none",))


def _parse_assignment(assignment: str) -> dict[str, Any]:
    """Parse an assignment of `--set`. Raises `UsageError` for an option that would change the run."""
    values = parse_set(assignment)
    for key in values.keys() - SETTABLE:
        raise UsageError(
            f"replay cannot change {key}: it repeats the stored run (--set takes mirror, broker.NAME, spark.NAME, "
            "bootstrap and client-config); start a new run with `fencepost run`"
        )
    return values
