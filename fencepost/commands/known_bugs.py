"""`fencepost known-bugs`: known bugs of Kafka and its clients, and the runs that show them.

The control is a run in which the cause is missing: another client, another setting, or no fault. It must be valid. A
run shows the bug only if each of its faults acted.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from fencepost import cli as command_flags
from fencepost import registry
from fencepost.api import Explored, FencepostFailed, Result, explore, run
from fencepost.sharing import shared_spark
from harness.common.documents import read_toml
from harness.common.errors import ExitStatus, UsageError
from harness.common.wording import check_name
from harness.results.reasons import CODES
from harness.settings.options import Options, key_of

FOLDER = Path(__file__).parents[1] / "known_bugs"
CASE = "case"
"""The key of a bug that a case of `fencepost explore` shows, instead of a run."""
SEED = 1
"""The seed of the first run. The n-th run has the n-th seed from here."""


@dataclass(frozen=True)
class KnownBug:
    """The content of one file. Options are written as in a suite file."""

    name: str
    title: str
    where: str  # the programs that have it
    since: str
    until: str  # empty: it is not fixed
    link: str
    bug: Mapping[str, Any]  # the options of the run that shows it
    control: Mapping[str, Any]  # the options of its control
    anomalies: Sequence[str] = ()  # the verdict names at least one of them
    reason: str = ""  # instead of anomalies: the verdict is unknown, and has this reason code
    kafka: Sequence[str] = ()  # the versions of Kafka on which it can be shown; the first is the default

    @property
    def expected(self) -> str:
        """The verdict that shows the bug, in words."""
        return f"unknown, {self.reason}" if self.reason else f"invalid, {' or '.join(self.anomalies)}"

    def version(self, kafka: str | None) -> str:
        """Return the version of Kafka for the runs. Raises `UsageError` if the bug is not known to be in `kafka`."""
        if kafka is not None and kafka not in self.kafka:
            raise UsageError(f"{self.name} can be shown on Kafka {', '.join(self.kafka)}, not on {kafka}")
        return kafka or self.kafka[0]

    def require_programs(self) -> None:
        """Raise `UsageError` if the working directory does not have the programs of the runs."""
        for options in (self.bug, self.control):
            pipeline = options.get("pipeline")
            if pipeline is not None and not Path(pipeline).exists():
                raise UsageError(
                    f"{self.name} runs {pipeline}, which is not here: start the command in the folder of a clone of "
                    f"Fencepost, after the steps in {Path(pipeline).parent}/README.md"
                )

    def is_shown_by(self, result: Result | Explored) -> bool:
        """Return whether the verdict shows the bug, and each fault acted."""
        if isinstance(result, Explored):  # a case whose fault did not act is not wrong
            return result.valid is False and bool(result.anomalies & set(self.anomalies))
        if idle_faults(result):
            return False
        if self.reason:
            return result.valid is None and self.reason in result.reasons
        return result.valid is False and bool(result.anomalies & set(self.anomalies))


def idle_faults(result: Result) -> list[str]:
    """Return the faults of a run that did not act. A fault that was injected several times needs to act only once."""
    acted: dict[str, bool] = {}
    for fault in result.faults:
        name = f"rule {fault['target']}" if fault["fault"] == "rule" else fault["fault"]
        acted[name] = acted.get(name, False) or fault["acted"]
    return [name for name, did in acted.items() if not did]


def names() -> list[str]:
    """Return the names of all known bugs, sorted."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load(name: str) -> KnownBug:
    """Read the file of a bug. Raises `UsageError` if there is none."""
    check_name("known bug", name, names())
    table = read_toml(FOLDER / f"{name}.toml")
    defaults, expected = table.pop("defaults", {}), table.pop("expected")
    for anomaly in expected.get("anomaly", ()):
        check_name("anomaly", anomaly, registry.anomalies())
    if reason := expected.get("reason", ""):
        check_name("reason code", reason, CODES)
    bug, control = (_options(name, {**defaults, **table.pop(key)}) for key in ("bug", "control"))
    anomalies = tuple(expected.get("anomaly", ()))
    return KnownBug(name=name, bug=bug, control=control, anomalies=anomalies, reason=reason, **table)


def _options(name: str, table: Mapping[str, Any]) -> dict[str, Any]:
    """Check the options of a run. Raises `UsageError`."""
    options = {key: value for key, value in table.items() if key != CASE}
    try:
        Options().updated(options).validated(registry.known_names())
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from None
    return {key if key == CASE else key_of(key): value for key, value in table.items()}


@dataclass
class Count:
    """How many runs had the expected verdict."""

    runs: int = 0
    expected: int = 0

    def __str__(self) -> str:
        return f"{self.expected} of {self.runs}"


@dataclass
class BugCounts:
    """The runs of a bug and of its control so far."""

    bug: KnownBug
    shown: Count = field(default_factory=Count)
    control: Count = field(default_factory=Count)
    failed: int = 0  # runs without a verdict

    def __str__(self) -> str:
        return f"{self.bug.name}: shown {self.shown}, control {self.control}"

    @property
    def exit_status(self) -> ExitStatus:
        """4 if a run has no verdict, 1 if a verdict is not the expected one, else 0."""
        if self.failed:
            return ExitStatus.FAILURE
        as_expected = all(count.expected == count.runs for count in (self.shown, self.control))
        return ExitStatus.VALID if as_expected else ExitStatus.INVALID


@dataclass(frozen=True)
class BugRuns:
    """The options of `fencepost known-bugs NAME`."""

    times: int = 1
    seed: int = SEED
    kafka: str | None = None  # None: the first version that the bug names
    store: str = "store"


def measure(counts: BugCounts, settings: BugRuns, say: Callable[[str], None]) -> Iterator[str]:
    """Run the bug and its control, and yield a line for each run.

    Raises:
        UsageError: The options of a run are wrong, or the bug is not known to be in this version of Kafka.
        KeyboardInterrupt: A run was interrupted.
    """
    bug = counts.bug
    kafka = bug.version(settings.kafka)
    for n in range(settings.times):
        for kind, count in (("bug", counts.shown), ("control", counts.control)):
            say(f"{bug.name}, {kind} {n + 1} of {settings.times}")
            own = bug.bug if kind == "bug" else bug.control
            name = bug.name if kind == "bug" else f"{bug.name}-control"
            count.runs += 1
            try:
                result = _carry_out(own, kafka, settings, name, n)
            except FencepostFailed as error:
                if error.exit_status == ExitStatus.INTERRUPTED:
                    raise KeyboardInterrupt from error
                if error.exit_status == ExitStatus.USAGE:
                    raise UsageError(str(error)) from error
                counts.failed += 1
                yield f"{kind} {n + 1}: no verdict: {error}"
                continue
            as_expected = bug.is_shown_by(result) if kind == "bug" else result.valid is True
            count.expected += as_expected
            yield f"{kind} {n + 1}: {describe(bug, kind, result, as_expected=as_expected)}"


def _carry_out(own: Mapping[str, Any], kafka: str, settings: BugRuns, name: str, n: int) -> Result | Explored:
    """Carry out a run, or a case. The store of a case is a folder of its own, because a case replaces the last one."""
    if CASE in own:
        options = {key.replace("-", "_"): value for key, value in own.items()}
        return explore(**options, kafka=kafka, store=Path(settings.store) / f"{name}-{n + 1}")
    return run(**{"seed": settings.seed + n, **own, "kafka": kafka, "store": settings.store, "name": name})


def describe(bug: KnownBug, kind: str, result: Result | Explored, *, as_expected: bool) -> str:
    """Describe the verdict of a run, and what was expected if it is another."""
    found = sorted(result.anomalies) + (sorted(result.reasons) if isinstance(result, Result) else [])
    verdict = ", ".join([result.word, *found])
    if as_expected:
        conclusion = "shown" if kind == "bug" else "as expected"
    elif kind == "control":
        conclusion = "expected: valid"
    elif isinstance(result, Result) and (idle := idle_faults(result)):
        conclusion = f"not shown, because a fault did not act: {', '.join(idle)}"
    else:
        conclusion = f"not shown, expected: {bug.expected}"
    return f"{verdict}: {conclusion} ({result.folder})"


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
