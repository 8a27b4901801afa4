"""`fencepost replay`."""

import sys
from contextlib import closing
from dataclasses import replace
from typing import Any

import click

from fencepost.commands import options as asking
from fencepost.commands import output as telling
from fencepost.progress import progress_for
from fencepost.stores import one_run
from harness.errors import ExitStatus, UsageError
from harness.record.store import PLAN
from harness.settings.command_line import command_line
from harness.settings.options import Options, parse_set
from harness.settings.test_toml import Plan

SETTABLE = frozenset({"mirror", "broker", "spark-conf"})
"""Settings that may hold a secret, which the run did not store."""


@click.command("replay")
@click.argument("store", metavar="STORE")
@asking.option_flags("master", "spark-conf")
@click.option(
    "--store", "into", metavar="DIR", help="keep the new run here  [default: where the first one was]"
)
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="KEY=VALUE",
    help="mirror, broker.NAME or spark.NAME, as in the run",
)
@click.option(
    "--without-defect",
    is_flag=True,
    help="run the pipeline right this time: the control of a run with --defect",
)
@asking.json_flag
def command(
    store: str, into: str | None, sets: tuple[str, ...], without_defect: bool, as_json: bool, **given: Any
) -> ExitStatus:
    """Run a stored run's options and schedule again, on a new cluster.

    A run does not store secrets, such as passwords: give them again with --set.

    Exit status: as `fencepost run`.

    \b
    Example:
      fencepost replay store/latest
      fencepost replay store/latest --without-defect
      fencepost replay store/shop/20261121T100000Z --json
    """
    plan = Plan.load(one_run(store) / PLAN)
    options = plan.options
    for values in [*map(_settable, sets), *asking.flag_values(given)]:
        options = options.updated(values)
    if into is not None:
        options = options.updated({"store": into})
    if without_defect:
        options = _right(options, store, scheduled=bool(plan.schedule))
    options = asking.settled(options)

    from fencepost.running import run

    with closing(progress_for(sys.stderr)) as progress:
        progress.say(f"replaying {store}, seed {options.seed}")
        verdict, folder = run(
            options,
            progress,
            command=command_line(options),
            schedule=list(plan.schedule),
            churn=plan.run.get("churn", ()),
        )
    telling.tell_run(verdict, folder, f"fencepost replay {folder}", as_json=as_json)
    return verdict.valid.exit_status


def _right(options: Options, store: str, *, scheduled: bool) -> Options:
    """The same without its defect. Raises `UsageError` where it had none."""
    if options.defect is None:
        raise UsageError(f"{store} had no defect: replay it without --without-defect")
    # A defect may need no fault. Then none is what its control is asked for, and not a run too short for any.
    return replace(options, defect=None, nemesis=options.nemesis if scheduled else ("none",))


def _settable(assignment: str) -> dict[str, Any]:
    """What `--set` says; raises `UsageError` for an option that would make another run of it."""
    values = parse_set(assignment)
    for key in values.keys() - SETTABLE:
        raise UsageError(
            f"replay cannot change {key}: it repeats the stored run (--set takes mirror, broker.NAME and "
            "spark.NAME); start a new run with `fencepost run`"
        )
    return values
