"""How the pipeline of a stored run recovered from its faults: measured when the verdict is decided, without Spark."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from fencepost import registry
from harness.common.errors import UnreadableInput
from harness.model.vocabulary import Premise
from harness.results.liveness import Liveness
from harness.results.run_metadata import RunMetadata
from harness.results.verdict import FaultReport
from harness.results.wording import printable
from harness.settings.run_file import StoredPlan
from reports.run_tables import RunTables
from reports.timeline.liveness import Progress, Window, fault_windows, liveness, read_progress

MOST_DRIFT_MS = 500.0
"""A wall clock that moved further than this against the monotonic clock does not tell when a marker was written."""


@dataclass(frozen=True)
class Recovery:
    """The faults of a run, each with its liveness if it acted."""

    faults: Sequence[FaultReport] = ()


def measure_recovery(folder: Path, plan: StoredPlan, run_metadata: RunMetadata | None) -> Recovery:
    """Measure how long each fault of a run hurt. Without metadata no fault is known."""
    if run_metadata is None:
        return Recovery()
    if not any(fault.acted for fault in run_metadata.faults):
        return Recovery(run_metadata.faults)
    why = _clocks_differ(plan, run_metadata)
    if why is None:
        try:
            progress = read_progress(
                RunTables(folder), plan.pipeline, run_metadata.phases, plan.run.get("session_timeout_ms")
            )
        except (UnreadableInput, pa.ArrowException) as error:
            why = printable(str(error), 300)
        else:
            why = None if len(progress.commits_ns) else "no table of the run has a commit"
    if why is not None:
        return Recovery([_with(fault, Liveness(not_known=why)) for fault in run_metadata.faults])
    last_commit_ns = int(progress.commits_ns[-1])
    load_end_ns = last_commit_ns if progress.load_end_ns is None else progress.load_end_ns
    windows = fault_windows(run_metadata.faults, load_end_ns, last_commit_ns)
    return Recovery(
        [
            fault if window is None else _with(fault, _measured(progress, window, fault))
            for fault, window in zip(run_metadata.faults, windows, strict=True)
        ]
    )


def _clocks_differ(plan: StoredPlan, run_metadata: RunMetadata) -> str | None:
    """Return why the times in logs and journals cannot be compared. None: they can."""
    if Premise.ONE_CLOCK.value in plan.promises.broken_premises:
        return "a fault of this run changed a clock"
    if not plan.promises.one_clock:
        return "the clocks of the brokers are not the clock of this machine"
    drift_ms = run_metadata.clock_drift_ms
    if drift_ms is not None and not drift_ms <= MOST_DRIFT_MS:
        return f"the wall clock moved by {drift_ms:,.0f} ms against the monotonic one during the run"
    if plan.run.get("wall_ms_at_zero") is None:
        return "run.toml does not say when the run began"
    return None


def _with(fault: FaultReport, liveness: Liveness) -> FaultReport:
    return replace(fault, liveness=liveness) if fault.acted else fault


def _measured(progress: Progress, window: Window, fault: FaultReport) -> Liveness:
    bound_ns = progress.bound_ns
    if bound_ns is not None and halts(fault):
        bound_ns += (window.end_ns if window.heal_ns is None else window.heal_ns) - window.start_ns
    return replace(
        liveness(progress, window), bound_s=None if bound_ns is None else round(bound_ns / 1e9, 3)
    )


def halts(fault: FaultReport) -> bool:
    """Return whether nothing can be committed during a fault.

    Its kind says so (`Nemesis.halts`). A fault that is aimed at a state of a transaction keeps the transaction in this
    state.
    """
    nemesis = registry.nemeses().get(fault.fault)
    return "state" in fault.details or (nemesis is not None and nemesis.halts)
