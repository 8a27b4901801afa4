"""A sweep: one run for each crash point of each workload, so that whatever is found belongs to that point."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from fencepost import registry
from fencepost.aims import CRASH_POINTS, aim, expand_names
from fencepost.api import FencepostFailed, Result, run
from fencepost.runs.planning import draw_schedule, pipeline_spec
from harness.common.errors import ExitStatus
from harness.common.names import check_name
from harness.model.vocabulary import WorkerStep
from harness.results.verdict import worst_status
from harness.results.wording import printable
from harness.runner.churn import LEAD_S
from harness.settings.options import Options

SLACK_S = 2.0
NOWHERE = "-"
NOTHING = "nothing"


@dataclass(frozen=True)
class SweepPoint:
    """One run of a sweep."""

    workload: str
    fault: str  # as `--nemesis` asks for it: `kill-worker@after-send`
    time_limit_s: float


@dataclass(frozen=True)
class SweepOutcome:
    """What came of a run. `anomalies`: by name, how many, and whether the guarantee permits them."""

    workload: str
    guarantee: str
    fault: str
    exit_status: int
    acted: int = 0
    anomalies: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    reason: str = ""  # where there is no verdict, or an unknown one
    store: str = ""

    @property
    def cell(self) -> str:
        """In a few words: "reprocessed-input 20"."""
        if self.exit_status not in (ExitStatus.VALID, ExitStatus.INVALID):
            return "unknown" if self.exit_status == ExitStatus.UNKNOWN else "failed"
        told = [
            f"{name} {body['count']:,}" + ("" if body["allowed"] else " (forbidden)")
            for name, body in self.anomalies.items()
        ]
        return ", ".join(told) or NOTHING

    def as_json(self) -> dict[str, Any]:
        """An object of `--json`."""
        return asdict(self)


def plan_points(
    workloads: Sequence[str], options: Options, time_limit_s: float | None = None
) -> list[SweepPoint]:
    """The runs of a sweep, workload by workload, in the order of the loop.

    Each is as long as its fault needs, unless told. Raises `UsageError` where a run would be refused.
    """
    there, faults = registry.workloads(), registry.nemeses()
    found = []
    for name in workloads:
        check_name("workload", name, there)
        own = replace(options, workload=name)
        for fault in sorted(expand_names([CRASH_POINTS], pipeline_spec(own, there[name])), key=_place):
            needed_s = math.ceil(LEAD_S + aim(fault, faults).duration_s + SLACK_S)
            point = SweepPoint(name, fault, time_limit_s or float(needed_s))
            asked = replace(own, nemesis=(fault,), time_limit_s=point.time_limit_s)
            draw_schedule(asked.validated(registry.known_names()), there[name])
            found.append(point)
    return found


def _place(fault: str) -> tuple[str, int]:
    name, _, step = fault.partition("@")
    return name, [one.value for one in WorkerStep].index(step)


def sweep(
    asked: Sequence[SweepPoint], settings: Mapping[str, Any], say: Callable[[str], None]
) -> Iterator[SweepOutcome]:
    """Carry them out, one after the other. `settings`: as `fencepost.run` takes them.

    Raises KeyboardInterrupt where a run was interrupted.
    """
    there = registry.workloads()
    for n, point in enumerate(asked, 1):
        say(f"{n} of {len(asked)}: {point.workload}, {point.fault}")
        own = {"workload": point.workload, "nemesis": [point.fault], "time_limit": point.time_limit_s}
        guarantee = there[point.workload].guarantee.value
        try:
            result = run(**{**own, **settings})
        except FencepostFailed as error:
            if error.exit_status == ExitStatus.INTERRUPTED:
                raise KeyboardInterrupt from error
            yield SweepOutcome(point.workload, guarantee, point.fault, error.exit_status, reason=str(error))
        else:
            yield summarize(point, guarantee, result)


def summarize(point: SweepPoint, guarantee: str, result: Result) -> SweepOutcome:
    """A verdict, as a sweep tells it: warnings, and what follows from another anomaly, aside."""
    verdict = result.verdict
    anomalies = {
        name: {"count": body["count"], "allowed": body["allowed"]}
        for name, body in verdict["anomalies"].items()
        if not body.get("because") and not body.get("warning")
    }
    reasons = [reason["text"] for reason in verdict.get("unknown_because", ())]
    return SweepOutcome(
        point.workload,
        guarantee,
        point.fault,
        result.exit_status,
        acted=sum(fault["acted"] for fault in verdict["faults"]),
        anomalies=anomalies,
        reason="; ".join(reasons) if result.valid is None else "",
        store=str(result.folder),
    )


def table(outcomes: Sequence[SweepOutcome]) -> Iterator[str]:
    """A row for each crash point, a column for each workload; Markdown, aligned."""
    columns = list(dict.fromkeys((one.workload, one.guarantee) for one in outcomes))
    faults = sorted({one.fault for one in outcomes}, key=_place)
    cells = {(one.workload, one.fault): one.cell for one in outcomes}
    heads = [name if name == promised else f"{promised} ({name})" for name, promised in columns]
    rows = [["crash point", *heads]]
    rows += [[f"`{fault}`", *(cells.get((name, fault), NOWHERE) for name, _ in columns)] for fault in faults]
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    for n, row in enumerate(rows):
        yield f"| {' | '.join(f'{cell:<{width}}' for cell, width in zip(row, widths, strict=True))} |"
        if n == 0:
            yield f"| {' | '.join('-' * width for width in widths)} |"


def remarks(outcomes: Sequence[SweepOutcome]) -> Iterator[str]:
    """A line for each run that is not valid: what it says, and where it lies."""
    for one in outcomes:
        if one.exit_status != ExitStatus.VALID:
            where = f" ({one.store})" if one.store else ""
            why = one.reason or "an anomaly that the guarantee forbids"
            yield f"{one.workload}, {one.fault}: {printable(why, 400)}{where}"


def status_of(outcomes: Sequence[SweepOutcome]) -> ExitStatus:
    """Of the whole sweep: the worst of its runs."""
    return worst_status(ExitStatus(one.exit_status) for one in outcomes)
