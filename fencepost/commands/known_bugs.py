"""`fencepost known-bugs`."""

import sys

import click

from fencepost.commands import flags as command_flags
from fencepost.known_bugs.known_bug import SEED, BugCounts, BugRuns, KnownBug, load, measure, names
from fencepost.sharing.process import shared_spark
from harness.common.errors import ExitStatus


@click.command("known-bugs", short_help="Show known bugs of Kafka and of its clients.")
@click.argument("name", metavar="[NAME]", required=False)
@click.option(
    "--times", metavar="N", type=click.IntRange(1, 1000), default=1, help="repeat both runs  [default: 1]"
)
@click.option("--kafka", metavar="VALUE", help="a version of Kafka that the list names for the bug")
@click.option(
    "--seed",
    metavar="VALUE",
    type=click.IntRange(0, 2**63 - 1001),
    default=SEED,
    help="the seed of the first run; each repetition has the next one  [default: 1]",
)
@command_flags.option_flags("store")
def command(name: str | None, times: int, kafka: str | None, seed: int, store: str | None) -> ExitStatus:
    """List the known bugs. With NAME, run a bug and its control, and compare both verdicts with the expected ones.

    The control is a run in which the cause is missing. It must be valid. A run in which a fault did not act does not
    show the bug. The last line counts the runs with the expected verdict. The runs are in STORE/NAME and
    STORE/NAME-control, as if `fencepost run` had made them.

    Exit status: 0 if all verdicts are as expected, 1 if one is not, 2 wrong usage, 4 failure.

    \b
    Example:
      fencepost known-bugs
      fencepost known-bugs kafka-17754-a
      fencepost known-bugs kafka-17754-a --times 10
    """
    if name is None:
        for bug in map(load, names()):
            print("\n".join(_entry(bug)))
        return ExitStatus.VALID

    bug = load(name)
    counts = BugCounts(bug)
    settings = BugRuns(times, seed, kafka, store or "store")
    bug.version(kafka)  # refuse another version before anything starts
    bug.require_programs()
    print(f"{bug.name}: {bug.title}; expected: {bug.expected}")
    with shared_spark():
        for line in measure(counts, settings, _say):
            print(line, flush=True)
    print(counts)
    return counts.exit_status


def _entry(bug: KnownBug) -> list[str]:
    """The lines of a bug in the list."""
    until = f"until {bug.until}" if bug.until else "not fixed"
    return [
        f"{bug.name}: {bug.title}",
        f"  in        {bug.where}, since {bug.since}, {until}",
        f"  expected  {bug.expected}",
        f"  kafka     {', '.join(bug.kafka)}",
    ]


def _say(text: str) -> None:
    """Print a line between two runs. Each run prints its own progress."""
    print(f"known-bugs: {text}", file=sys.stderr, flush=True)
