"""A sweep: one run for each crash point of each workload. Each finding therefore belongs to one crash point."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fencepost import registry
from fencepost.api import FencepostFailed, Result, run
from fencepost.registry import aim
from fencepost.runs.planning import draw_schedule, pipeline_spec
from harness.common.errors import ExitStatus
from harness.common.wording import check_name, printable
from harness.model.fault_names import CRASH_POINTS, expand_names
from harness.model.vocabulary import WorkerStep
from harness.results.verdict import worst_status
from harness.runner.churn import LEAD_S
from harness.settings.options import Options

SLACK_S = 2.0
NOWHERE = "-"
NOTHING = "nothing"


@dataclass(frozen=True)
class SweepPoint:
    """One run of a sweep."""

    workload: str
    fault: str  # as in `--nemesis`: `kill-worker@after-send`
    time_limit_s: float


@dataclass(frozen=True)
class SweepOutcome:
    """The outcome of a run. `anomalies`: for each name its `count` and whether the guarantee permits it."""

    workload: str
    guarantee: str
    fault: str
    exit_status: int
    acted: int = 0
    anomalies: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    reason: str = ""  # why there is no verdict, or an unknown one
    store: str = ""

    @property
    def cell(self) -> str:
        """The text of its cell in the table: "reprocessed-input 20"."""
        if self.exit_status not in (ExitStatus.VALID, ExitStatus.INVALID):
            return "unknown" if self.exit_status == ExitStatus.UNKNOWN else "failed"
        texts = [
            f"{name} {body['count']:,}" + ("" if body["allowed"] else " (forbidden)")
            for name, body in self.anomalies.items()
        ]
        return ", ".join(texts) or NOTHING


def plan_points(
    workloads: Sequence[str], options: Options, time_limit_s: float | None = None
) -> list[SweepPoint]:
    """The runs of a sweep, workload by workload, in the order of the loop.

    If `time_limit_s` is None, each run is as long as its fault needs. Raises `UsageError` if a run is not possible.
    """
    known, faults = registry.workloads(), registry.nemeses()
    points = []
    for name in workloads:
        check_name("workload", name, known)
        own = replace(options, workload=name)
        for fault in sorted(
            expand_names([CRASH_POINTS], pipeline_spec(own, known[name])), key=_by_nemesis_and_step
        ):
            needed_s = math.ceil(LEAD_S + aim(fault, faults).duration_s + SLACK_S)
            point = SweepPoint(name, fault, time_limit_s or float(needed_s))
            run_options = replace(own, nemesis=(fault,), time_limit_s=point.time_limit_s)
            draw_schedule(run_options.validated(registry.known_names()), known[name])
            points.append(point)
    return points


def _by_nemesis_and_step(fault: str) -> tuple[str, int]:
    name, _, step = fault.partition("@")
    return name, [known.value for known in WorkerStep].index(step)


def sweep(
    points: Sequence[SweepPoint], settings: Mapping[str, Any], say: Callable[[str], None]
) -> Iterator[SweepOutcome]:
    """Start the runs one after the other. `settings` are more options of `fencepost.run`.

    Raises KeyboardInterrupt if a run was interrupted.
    """
    known = registry.workloads()
    for n, point in enumerate(points, 1):
        say(f"{n} of {len(points)}: {point.workload}, {point.fault}")
        own = {"workload": point.workload, "nemesis": [point.fault], "time_limit": point.time_limit_s}
        guarantee = known[point.workload].guarantee.value
        try:
            result = run(**{**own, **settings})
        except FencepostFailed as error:
            if error.exit_status == ExitStatus.INTERRUPTED:
                raise KeyboardInterrupt from error
            yield SweepOutcome(point.workload, guarantee, point.fault, error.exit_status, reason=str(error))
        else:
            yield summarize(point, guarantee, result)


def summarize(point: SweepPoint, guarantee: str, result: Result) -> SweepOutcome:
    """Summarize a verdict. Leave out warnings, and anomalies that another one causes."""
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
    """Draw a Markdown table: a row for each crash point, a column for each workload."""
    columns = list(dict.fromkeys((outcome.workload, outcome.guarantee) for outcome in outcomes))
    faults = sorted({outcome.fault for outcome in outcomes}, key=_by_nemesis_and_step)
    cells = {(outcome.workload, outcome.fault): outcome.cell for outcome in outcomes}
    heads = [name if name == guarantee else f"{guarantee} ({name})" for name, guarantee in columns]
    rows = [["crash point", *heads]]
    rows += [[f"`{fault}`", *(cells.get((name, fault), NOWHERE) for name, _ in columns)] for fault in faults]
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    for n, row in enumerate(rows):
        yield f"| {' | '.join(f'{cell:<{width}}' for cell, width in zip(row, widths, strict=True))} |"
        if n == 0:
            yield f"| {' | '.join('-' * width for width in widths)} |"


def remarks(outcomes: Sequence[SweepOutcome]) -> Iterator[str]:
    """A line for each run that is not valid: the reason, and the run folder."""
    for outcome in outcomes:
        if outcome.exit_status != ExitStatus.VALID:
            where = f" ({outcome.store})" if outcome.store else ""
            why = outcome.reason or "an anomaly that the guarantee forbids"
            yield f"{outcome.workload}, {outcome.fault}: {printable(why, 400)}{where}"


def status_of(outcomes: Sequence[SweepOutcome]) -> ExitStatus:
    """The exit status of the sweep: the worst of its runs."""
    return worst_status(ExitStatus(outcome.exit_status) for outcome in outcomes)
