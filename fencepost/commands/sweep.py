"""`fencepost sweep`."""

import sys
from typing import Any

import click

from fencepost import cli as command_flags
from fencepost.commands import options as cli_options
from fencepost.commands import output
from fencepost.sharing import shared_spark
from harness.common.documents import encode
from harness.common.errors import ExitStatus, UsageError
from harness.settings.options import FIELDS, parse

WORKLOADS = "at-most-once,at-least-once,echo"
"""One pipeline (words -> echoes), with each of the three guarantees."""
OWN = frozenset({"workload", "nemesis", "defect", "time-limit"})
"""Options that a sweep chooses itself, or for which it has a flag."""


@click.command("sweep", short_help="Crash a worker at every step of its loop.")
@click.option("--workload", metavar="NAMES", help=f"workloads, separated by commas  [default: {WORKLOADS}]")
@click.option(
    "--time-limit",
    metavar="SECONDS",
    help="duration of each run  [default: as long as its fault needs, 12 to 20]",
)
@command_flags.option_flags("client", "seed", "store")
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="KEY=VALUE",
    help="another option of the runs; broker.NAME=VALUE",
)
@click.option("--json", "as_json", is_flag=True, help="print a list of objects, one for each run")
def command(
    workload: str | None, time_limit: str | None, sets: tuple[str, ...], as_json: bool, **flags: Any
) -> ExitStatus:
    """Crash a worker at every step of its loop, one run per step, and print which anomalies follow.

    A sweep kills a worker at every step. At every step where the worker has uncommitted inputs, another run pauses it.
    The table has a row for each crash point and a column for each workload. A cell lists the anomalies of the run. It
    says "(forbidden)" if the guarantee of the workload does not permit the anomaly. Thirty runs take half an hour.

    Exit status: as for `fencepost check` with several histories.

    \b
    Example:
      fencepost sweep
      fencepost sweep --workload orders --client java
      fencepost sweep --workload idempotent --time-limit 40 --seed 3 --json
    """
    assignments = [assignment.partition("=") for assignment in sets]
    for key, _, _ in assignments:
        if key in OWN:
            raise UsageError(
                f"a sweep chooses {key} itself, or has a flag for it: leave out --set {key} (see --help)"
            )
    limit_s = None if time_limit is None else parse("time-limit", time_limit)["time-limit"]
    # Runs are short. With deliberate aborts, a run without one would be unknown.
    quiet = () if any(key == "abort-share" for key, _, _ in assignments) else ("abort-share=0",)
    options = cli_options.settle(cli_options.options_from(flags, (*quiet, *sets), None))

    from fencepost.runs.sweep import plan_points, remarks, status_of, sweep, table

    names = [name.strip() for name in (WORKLOADS if workload is None else workload).split(",")]
    crash_points = plan_points(list(dict.fromkeys(names)), options, limit_s)
    settings = {key: text for key, _, text in (assignment.partition("=") for assignment in (*quiet, *sets))}
    settings |= {key: getattr(options, FIELDS[key].name) for key in ("client", "seed", "store")}
    _say(f"seed {options.seed}; {len(crash_points)} runs, one for each crash point of {', '.join(names)}")
    with shared_spark():
        outcomes = list(sweep(crash_points, settings, _say))
    stream = sys.stderr if as_json else sys.stdout
    for line in [*table(outcomes), *remarks(outcomes)]:
        print(line, file=stream)
    if as_json:
        output.print_json(encode(outcomes), indent=1)
    return status_of(outcomes)


def _say(text: str) -> None:
    """Print a line between two runs. Each run prints its own progress."""
    print(f"sweep: {text}", file=sys.stderr, flush=True)
