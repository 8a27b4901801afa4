"""Churn: workers join and leave in good order while inputs flow. It is no fault: a pipeline has to bear it.

Like the schedule of faults it is seeded data, drawn before the run, stored with it, and repeated from there. That
partitions really moved is read off the workers' journals at the end.
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
from harness.results.membership_changes import MembershipChange
from harness.runner.member import STOP_TIMEOUT_S, RunProcess
from harness.runner.processes import Processes

LEAD_S = 3.0
"""Undisturbed work before the first fault or turn, so that there is something to break."""
LAST_S = 4.0
"""Before the end of the time limit: later there is nothing to move for."""
MOST_GUESTS = 2
"""So many more workers than its options say a stage has at most."""
FREE_TIMEOUT_S = 30.0
"""How long a worker that is to leave is waited for while a fault has it in hand."""
NAME = "churn"


@dataclass(frozen=True)
class PlannedChange:
    """One change of a stage's workers. Times are seconds since the feeder began."""

    start_s: float
    stage: str
    joins: str | None = None
    leaves: str | None = None

    def as_table(self) -> dict[str, str | float | None]:
        """As it stands in `run.toml`; what is None is left out there."""
        return {"start_s": self.start_s, "stage": self.stage, "joins": self.joins, "leaves": self.leaves}

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> "PlannedChange":
        """The inverse of `as_table`; raises `UnreadableInput`."""
        try:
            return cls(float(table["start_s"]), str(table["stage"]), table.get("joins"), table.get("leaves"))
        except (KeyError, TypeError, ValueError) as error:
            raise UnreadableInput(f"a turn of the churn cannot be read: {error!r} in {table!r}") from error

    @property
    def words(self) -> str:
        """`shop-4 joins, shop-2 leaves`."""
        who = ((self.joins, "joins"), (self.leaves, "leaves"))
        return ", ".join(f"{name} {does}" for name, does in who if name)

    def __str__(self) -> str:
        return f"{self.start_s:5.1f} s  {NAME}  {self.stage}: {self.words}"


def draw(
    rng: Random,
    every_s: float,
    time_limit_s: float,
    workers: Mapping[str, Sequence[str]],
    struck: Collection[str],
) -> tuple[PlannedChange, ...]:
    """A turn every so many seconds, give or take a quarter: a worker joins, one leaves, or both at once.

    `struck`: the workers that a fault is to strike; they stay. Who joins has a name of its own.
    """
    present = {stage: list(named) for stage, named in workers.items()}
    known = {stage: len(named) for stage, named in workers.items()}
    turns = []
    at_s = LEAD_S + every_s * rng.uniform(0.25, 0.75)
    while at_s <= time_limit_s - LAST_S:
        stage = rng.choice(sorted(present))
        here, told = present[stage], len(workers[stage])
        may_leave = [name for name in here if name not in struck]
        kinds = [*(["join"] if len(here) < told + MOST_GUESTS else []), *(["swap"] if may_leave else [])]
        if may_leave and len(here) > max(1, told - 1):
            kinds.append("leave")
        kind = rng.choice(kinds)
        joins = leaves = None
        if kind in ("leave", "swap"):
            leaves = rng.choice(may_leave)
            here.remove(leaves)
        if kind in ("join", "swap"):
            known[stage] += 1
            joins = f"{stage}-{known[stage]}"
            here.append(joins)
        turns.append(PlannedChange(round(at_s, 2), stage, joins, leaves))
        at_s += every_s * rng.uniform(0.75, 1.25)
    return tuple(turns)


def joining_workers(turns: Sequence[PlannedChange]) -> dict[str, tuple[str, ...]]:
    """By stage, the workers that join."""
    stages = dict.fromkeys(turn.stage for turn in turns)
    return {
        stage: tuple(turn.joins for turn in turns if turn.stage == stage and turn.joins) for stage in stages
    }


def extra_endpoints(turns: Sequence[PlannedChange]) -> int:
    """How many client endpoints they need beyond those of the workers that begin: who joins has one before who leaves
    has given its own back.
    """
    present = most = 0
    for turn in turns:
        most = max(most, present + (turn.joins is not None))
        present += (turn.joins is not None) - (turn.leaves is not None)
    return most + 1 if turns else 0


@dataclass
class ChangeReport:
    """What became of a turn. Times are seconds since the run began."""

    turn: PlannedChange
    start_s: float
    end_s: float
    joined: str | None = None  # the journals of who joined and who left
    left: str | None = None
    why: str = ""  # it was not carried out whole


@dataclass
class Churn:
    """The thread that carries the turns out; `stop` begins no more."""

    turns: Sequence[PlannedChange]
    processes: Processes
    journal: Journal
    journal_lock: threading.Lock  # others write the same journal
    begun_s: float  # on the monotonic clock: the zero of the schedule
    done: list[ChangeReport] = field(default_factory=list)
    errors: list[FencepostError] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=NAME)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    @property
    def over(self) -> bool:
        """Whether every turn was carried out."""
        return not self._thread.is_alive()

    def stop(self) -> None:
        """Begin no more, and wait for what is under way."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        for turn in self.turns:
            if self._stop.wait(max(0.0, self.begun_s + turn.start_s - time.monotonic())):
                return
            try:
                self._carry_out(turn)
            except FencepostError as error:
                self.errors.append(error)
                return

    def _carry_out(self, turn: PlannedChange) -> None:
        with self.journal_lock:
            op = self.journal.number()
            told: dict[str, str | float] = {
                key: value for key, value in turn.as_table().items() if value is not None
            }
            self.journal.write(Invoked(NAME, -1, op, target=turn.stage, parameters=told))
        done = ChangeReport(turn, self._now_s(), 0.0)
        self.done.append(done)
        if turn.joins is not None:
            joiner = self.processes.start_worker(turn.stage, turn.joins)
            self.processes.await_ready([joiner])
            done.joined = joiner.journal
        if turn.leaves is not None:
            try:
                self._leave(done, turn.stage, turn.leaves)
            except WaitTimeout as error:
                done.why = str(error)
        done.end_s = self._now_s()
        outcome = Outcome.INFO if done.why else Outcome.OK
        with self.journal_lock:
            self.journal.write(
                Completed(outcome, NAME, -1, op, target=turn.stage, evidence=done.why or turn.words)
            )

    def _leave(self, done: ChangeReport, stage: str, worker: str) -> None:
        """Have a worker that no fault has in hand close its consumer and end."""

        def free() -> RunProcess | None:
            return self.processes.dismiss(stage, worker)

        member = wait_for(free, f"{worker} to be free to leave", FREE_TIMEOUT_S, every_s=0.1)
        done.left = member.journal
        status = member.child.wait(STOP_TIMEOUT_S)
        if status:
            done.why = f"{member.journal} did not end in good order: exit status {status}"

    def _now_s(self) -> float:
        return self.journal.now_ns() / 1e9


def read_membership_changes(folder: Path, done: Sequence[ChangeReport]) -> list[MembershipChange]:
    """What the workers' journals say that moved in each turn, once they have ended."""
    stages = {one.turn.stage for one in done}
    history = {stage: _assignments(folder, stage) for stage in stages}
    return [_moved(one, history[one.turn.stage]) for one in done]


Assignment = tuple[float, str, bool, Sequence[str]]
"""When, in whose journal, whether it gained, and which partitions."""


def _assignments(folder: Path, stage: str) -> list[Assignment]:
    found: list[Assignment] = []
    for path in sorted((folder / "journals").glob("*.jsonl")):
        with path.open("rb") as lines:
            begun = _event(next(lines, b""))
            if not isinstance(begun, JournalBegan) or begun.stage != stage:
                continue
            for line in lines:
                event = _event(line) if b'"assign"' in line else None
                if isinstance(event, Assigned):
                    at_s = orjson.loads(line)["time"] / 1e9
                    found.append((at_s, path.stem, event.gained, event.partitions))
    return sorted(found, key=lambda one: one[0])


def _event(line: bytes) -> Event | None:
    """The event of a line; None: it is torn, or none."""
    try:
        return parse(orjson.loads(line))
    except (NotAnEvent, orjson.JSONDecodeError):
        return None


def _moved(done: ChangeReport, history: Sequence[Assignment]) -> MembershipChange:
    """A partition moved to who joined, or from who left to somebody else."""
    gained = {
        partition
        for at_s, journal, gained, partitions in history
        if gained and journal == done.joined and at_s >= done.start_s
        for partition in partitions
    }
    held: set[str] = set()
    for at_s, journal, gained_them, partitions in history:
        if journal == done.left and at_s < done.start_s:
            held = held | set(partitions) if gained_them else held - set(partitions)
    taken = {
        partition
        for at_s, journal, gained_them, partitions in history
        if gained_them and journal != done.left and at_s >= done.start_s
        for partition in partitions
    }
    return MembershipChange(
        stage=done.turn.stage,
        joined=done.joined,
        left=done.left,
        start_s=round(done.start_s, 3),
        end_s=round(done.end_s, 3),
        to=tuple(sorted(gained)),
        away=tuple(sorted(held & taken)),
        why=done.why,
    )
