"""`fencepost sweep`."""

import json
import sys
from typing import Any

import click

from fencepost.commands import options as asking
from harness.common.errors import ExitStatus, UsageError
from harness.settings.options import FIELDS, parse

WORKLOADS = "at-most-once,at-least-once,echo"
"""One pipeline under each guarantee: words -> echoes."""
OWN = frozenset({"workload", "nemesis", "defect", "time-limit"})
"""What a sweep chooses by itself, or has an option for."""


@click.command("sweep", short_help="Strike a worker at each step of its loop.")
@click.option(
    "--workload", metavar="NAMES", help=f"workloads, with commas between them  [default: {WORKLOADS}]"
)
@click.option(
    "--time-limit", metavar="SECONDS", help="of each run  [default: as long as its fault needs, 12 to 20]"
)
@asking.option_flags("client", "seed", "store")
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="KEY=VALUE",
    help="any other option of the runs; broker.NAME=VALUE",
)
@click.option("--json", "as_json", is_flag=True, help="print a list of objects, one for each run")
def command(
    workload: str | None, time_limit: str | None, sets: tuple[str, ...], as_json: bool, **given: Any
) -> ExitStatus:
    """Strike a worker at each step of its loop, in a run of its own, and print what each step allows.

    A kill at every step, and a pause at every step at which the worker holds what it has not committed. The table has
    a row for each crash point and a column for each workload: the anomalies that the run found, and "(forbidden)" where
    the workload's guarantee does not permit them. Thirty runs take about half an hour.

    Exit status: as `fencepost check`, of all runs together.

    \b
    Example:
      fencepost sweep
      fencepost sweep --workload orders --client java
      fencepost sweep --workload idempotent --time-limit 40 --seed 3 --json
    """
    assignments = [assignment.partition("=") for assignment in sets]
    for key, _, _ in assignments:
        if key in OWN:
            raise UsageError(f"a sweep takes no --set {key}: it chooses faults by itself (see --help)")
    limit_s = None if time_limit is None else parse("time-limit", time_limit)["time-limit"]
    # No transaction aborts on purpose: a run is short, and might hold none.
    quiet = () if any(key == "abort-share" for key, _, _ in assignments) else ("abort-share=0",)
    options = asking.settle(asking.options_from(given, (*quiet, *sets), None))

    from fencepost.runs.sweep import plan_points, remarks, status_of, sweep, table
    from fencepost.sharing.process import shared_judge

    names = [name.strip() for name in (WORKLOADS if workload is None else workload).split(",")]
    asked = plan_points(list(dict.fromkeys(names)), options, limit_s)
    settings = {key: text for key, _, text in (one.partition("=") for one in (*quiet, *sets))}
    settings |= {key: getattr(options, FIELDS[key].name) for key in ("client", "seed", "store")}
    _say(f"seed {options.seed}; {len(asked)} runs, one for each crash point of {', '.join(names)}")
    with shared_judge():
        outcomes = list(sweep(asked, settings, _say))
    words = sys.stderr if as_json else sys.stdout
    for line in [*table(outcomes), *remarks(outcomes)]:
        print(line, file=words)
    if as_json:
        print(json.dumps([one.as_json() for one in outcomes], ensure_ascii=False, indent=1))
    return status_of(outcomes)


def _say(text: str) -> None:
    """The runs show their own progress, each as it fits the terminal; between them stands a line."""
    print(f"sweep: {text}", file=sys.stderr, flush=True)
