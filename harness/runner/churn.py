"""Churn: workers join and leave cleanly while inputs flow. It is not a fault: a correct pipeline tolerates it.

Like the schedule of faults, the planned changes are seeded data. They are drawn before the run, stored in `run.toml`,
and replayed from there. After the run, the workers' journals show which partitions moved.
"""

import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import orjson

from harness.common.errors import FencepostError, UnreadableInput, WaitTimeout
from harness.common.waiting import wait_for
from harness.model.vocabulary import Outcome
from harness.record.events import Assigned, Completed, Event, Invoked, JournalBegan, NotAnEvent, parse
from harness.record.journal import Journal
from harness.results.verdict import MembershipChange
from harness.runner.processes import Processes
from harness.runner.run_process import STOP_TIMEOUT_S, RunProcess

LEAD_S = 3.0
"""Time before the first fault or change, so that transactions are in progress."""
LAST_S = 4.0
"""No change is planned in the last seconds of the time limit, because a rebalance would not finish."""
MAX_EXTRA_WORKERS = 2
"""The churn adds at most this many workers to a stage."""
FREE_TIMEOUT_S = 30.0
"""How long to wait for a worker that must leave but is reserved by a fault."""
NAME = "churn"


@dataclass(frozen=True)
class PlannedChange:
    """One planned change of the workers of a stage. `start_s` counts from the start of the feeder."""

    start_s: float
    stage: str
    joins: str | None = None
    leaves: str | None = None

    def as_table(self) -> dict[str, str | float | None]:
        """Return the entry of `run.toml`, which leaves out values that are None."""
        return {"start_s": self.start_s, "stage": self.stage, "joins": self.joins, "leaves": self.leaves}

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> "PlannedChange":
        """The inverse of `as_table`. Raises `UnreadableInput`."""
        try:
            return cls(float(table["start_s"]), str(table["stage"]), table.get("joins"), table.get("leaves"))
        except (KeyError, TypeError, ValueError) as error:
            raise UnreadableInput(
                f"a planned change of the churn cannot be read: {error!r} in {table!r}"
            ) from error

    @property
    def description(self) -> str:
        """The change in words, for example `shop-4 joins, shop-2 leaves`."""
        changes = ((self.joins, "joins"), (self.leaves, "leaves"))
        return ", ".join(f"{worker} {verb}" for worker, verb in changes if worker)

    def __str__(self) -> str:
        return f"{self.start_s:5.1f} s  {NAME}  {self.stage}: {self.description}"


def draw(
    rng: Random,
    every_s: float,
    time_limit_s: float,
    workers: Mapping[str, Sequence[str]],
    reserved: Collection[str],
) -> tuple[PlannedChange, ...]:
    """Draw the planned changes. In each change a worker joins, a worker leaves, or both.

    A worker that joins has a new name.

    Args:
        rng: The source of randomness.
        every_s: The mean time between two changes, in seconds. The actual time differs by up to a quarter.
        time_limit_s: The time limit of the run, in seconds.
        workers: By stage, the names of its workers at the start.
        reserved: The workers that are targets of planned faults. They never leave.
    """
    present_by_stage = {stage: list(names) for stage, names in workers.items()}
    names_used = {stage: len(names) for stage, names in workers.items()}
    changes = []
    at_s = LEAD_S + every_s * rng.uniform(0.25, 0.75)
    while at_s <= time_limit_s - LAST_S:
        stage = rng.choice(sorted(present_by_stage))
        present, usual_count = present_by_stage[stage], len(workers[stage])
        may_leave = [name for name in present if name not in reserved]
        kinds = [
            *(["join"] if len(present) < usual_count + MAX_EXTRA_WORKERS else []),
            *(["swap"] if may_leave else []),
        ]
        if may_leave and len(present) > max(1, usual_count - 1):
            kinds.append("leave")
        kind = rng.choice(kinds)
        joins = leaves = None
        if kind in ("leave", "swap"):
            leaves = rng.choice(may_leave)
            present.remove(leaves)
        if kind in ("join", "swap"):
            names_used[stage] += 1
            joins = f"{stage}-{names_used[stage]}"
            present.append(joins)
        changes.append(PlannedChange(round(at_s, 2), stage, joins, leaves))
        at_s += every_s * rng.uniform(0.75, 1.25)
    return tuple(changes)


def joining_workers(changes: Sequence[PlannedChange]) -> dict[str, tuple[str, ...]]:
    """Return, by stage, the workers that join."""
    stages = dict.fromkeys(change.stage for change in changes)
    return {
        stage: tuple(change.joins for change in changes if change.stage == stage and change.joins)
        for stage in stages
    }


def extra_endpoints(changes: Sequence[PlannedChange]) -> int:
    """Return how many client endpoints the changes need, in addition to the endpoints of the workers at the start.

    In a swap, the joining worker gets its endpoint before the leaving worker releases its own. One more endpoint is
    spare, for a worker that does not leave in time.
    """
    present = most = 0
    for change in changes:
        most = max(most, present + (change.joins is not None))
        present += (change.joins is not None) - (change.leaves is not None)
    return most + 1 if changes else 0


@dataclass
class ChangeReport:
    """The result of a planned change. Times are seconds since the start of the run."""

    change: PlannedChange
    start_s: float
    end_s: float
    joined: str | None = None  # the journal of the worker that joined
    left: str | None = None  # the journal of the worker that left
    why: str = ""  # why the change was not completed; empty: it was completed


@dataclass
class Churn:
    """A thread that makes the planned changes."""

    changes: Sequence[PlannedChange]
    processes: Processes
    journal: Journal
    journal_lock: threading.Lock  # the fault injector writes to the same journal
    start_s: float  # the monotonic clock when the feeder started
    reports: list[ChangeReport] = field(default_factory=list)
    errors: list[FencepostError] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=NAME)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Start no more changes, and wait until the current change is complete."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        for change in self.changes:
            if self._stop.wait(max(0.0, self.start_s + change.start_s - time.monotonic())):
                return
            try:
                self._make(change)
            except FencepostError as error:
                self.errors.append(error)
                return

    def _make(self, change: PlannedChange) -> None:
        with self.journal_lock:
            op = self.journal.number()
            parameters: dict[str, str | float] = {
                key: value for key, value in change.as_table().items() if value is not None
            }
            self.journal.write(Invoked(NAME, -1, op, target=change.stage, parameters=parameters))
        report = ChangeReport(change, self._now_s(), 0.0)
        self.reports.append(report)
        if change.joins is not None:
            joining_worker = self.processes.start_worker(change.stage, change.joins)
            self.processes.await_ready([joining_worker])
            report.joined = joining_worker.journal
        if change.leaves is not None:
            try:
                self._leave(report, change.stage, change.leaves)
            except WaitTimeout as error:
                report.why = str(error)
        report.end_s = self._now_s()
        outcome = Outcome.INFO if report.why else Outcome.OK
        with self.journal_lock:
            self.journal.write(
                Completed(
                    outcome, NAME, -1, op, target=change.stage, evidence=report.why or change.description
                )
            )

    def _leave(self, report: ChangeReport, stage: str, worker: str) -> None:
        """Wait until no fault reserves the worker. Then let it close its consumer and end."""

        def leaving_worker() -> RunProcess | None:
            living = (member for member in self.processes.workers(stage) if member.worker == worker)
            return next(filter(self.processes.ask_to_leave, living), None)

        worker_process = wait_for(
            leaving_worker, f"{worker} to be free to leave", FREE_TIMEOUT_S, every_s=0.1
        )
        report.left = worker_process.journal
        status = worker_process.child.wait(STOP_TIMEOUT_S)
        if status:
            report.why = f"{worker_process.journal} did not end cleanly: exit status {status}"

    def _now_s(self) -> float:
        return self.journal.now_ns() / 1e9


def read_membership_changes(folder: Path, reports: Sequence[ChangeReport]) -> list[MembershipChange]:
    """Read from the workers' journals which partitions each change moved. Call it after the workers have ended."""
    stages = {report.change.stage for report in reports}
    history = {stage: _assignments(folder, stage) for stage in stages}
    return [_membership_change(report, history[report.change.stage]) for report in reports]


Assignment = tuple[float, str, bool, Sequence[str]]
"""The time in seconds, the journal, whether the partitions were gained, and the partitions."""


def _assignments(folder: Path, stage: str) -> list[Assignment]:
    assignments: list[Assignment] = []
    for path in sorted((folder / "journals").glob("*.jsonl")):
        with path.open("rb") as lines:
            head = _event(next(lines, b""))
            if not isinstance(head, JournalBegan) or head.stage != stage:
                continue
            for line in lines:
                event = _event(line) if b'"assign"' in line else None
                if isinstance(event, Assigned):
                    at_s = orjson.loads(line)["time"] / 1e9
                    assignments.append((at_s, path.stem, event.gained, event.partitions))
    return sorted(assignments, key=lambda assignment: assignment[0])


def _event(line: bytes) -> Event | None:
    """Return the event of a line, or None if the line is torn or is not an event."""
    try:
        return parse(orjson.loads(line))
    except (NotAnEvent, orjson.JSONDecodeError):
        return None


def _membership_change(report: ChangeReport, history: Sequence[Assignment]) -> MembershipChange:
    """A partition moved if the joining worker gained it, or if another worker gained it from the leaving worker."""
    gained = {
        partition
        for at_s, journal, gained, partitions in history
        if gained and journal == report.joined and at_s >= report.start_s
        for partition in partitions
    }
    owned: set[str] = set()
    for at_s, journal, gained_now, partitions in history:
        if journal == report.left and at_s < report.start_s:
            owned = owned | set(partitions) if gained_now else owned - set(partitions)
    taken_over = {
        partition
        for at_s, journal, gained_now, partitions in history
        if gained_now and journal != report.left and at_s >= report.start_s
        for partition in partitions
    }
    return MembershipChange(
        stage=report.change.stage,
        joined=report.joined,
        left=report.left,
        start_s=round(report.start_s, 3),
        end_s=round(report.end_s, 3),
        to=tuple(sorted(gained)),
        away=tuple(sorted(owned & taken_over)),
        why=report.why,
    )
