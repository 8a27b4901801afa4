"""The processes of a run that speak Kafka: workers, feeder, observer, final readers.

Each is an operating-system process with a journal of its own and a control line to here. A worker
that is gone, or that a fault has made a zombie, is replaced by the next incarnation in a client
endpoint of its own: the same worker, so the same transactional id.
"""

import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness.common.errors import PipelineFailed, StartFailed, WaitTimeout
from harness.common.waiting import wait_for
from harness.model.pipeline import StageSpec
from harness.model.vocabulary import Role, WorkerStep
from harness.processes.control_line import Claims, Command, Counts, Report
from harness.processes.program import Program
from harness.processes.spawn import Supervisor
from harness.processes.specs import (
    FeederSpec,
    JournalSpec,
    ObserverSpec,
    ProcessSpec,
    ReaderSpec,
    TaskSpec,
    WorkerSpec,
)
from harness.results.reasons import Reason, ReasonCode
from harness.runner.member import RunProcess, describe_not_ready, is_ready

START_TIMEOUT_S = 60.0
MOST_UNEXPECTED_ENDS = 20
"""Workers of ours that may end by themselves before the run is given up."""
MOST_EXITS = 8
"""How often one instance of a user's program may end by itself: one that was fenced is right to do so."""
OBSERVER_ENDPOINT = "aside"


@dataclass(frozen=True)
class RunClock:
    """The clock of a run: the same monotonic zero for every process."""

    zero_ns: int
    wall_ms_at_zero: float


def unexpected_end(journal: str, words: str) -> Reason:
    """A process ended by itself, and another took its place."""
    return Reason(ReasonCode.UNEXPECTED_END, words, journal)


class Processes:
    """Starts, strikes, replaces and stops the processes of a run."""

    def __init__(
        self,
        supervisor: Supervisor,
        folder: Path,
        clock: RunClock,
        bootstrap_for: Callable[[str], str],
        worker_endpoints: Sequence[str],
        stages: Sequence[StageSpec],
        programs: Mapping[str, Program],
        own: Program,
        members_of: Callable[[str], tuple[str, ...] | None] = lambda group: (),
    ) -> None:
        self._supervisor = supervisor
        self.folder = folder
        self._clock = clock
        self._bootstrap_for = bootstrap_for
        self._worker_endpoints = tuple(worker_endpoints)
        self._stages = {stage.name: stage for stage in stages}
        self._programs = programs  # by stage
        self._own = own  # feeder, observers, readers
        self._members_of = members_of  # of a group; None while it is not stable
        self._lock = threading.RLock()
        self._incarnations: dict[str, int] = {}
        self.members: list[RunProcess] = []
        self.unexpected_ends: list[Reason] = []
        (folder / "journals").mkdir(exist_ok=True)
        (folder / "workers").mkdir(exist_ok=True)

    # -- starting ---------------------------------------------------------------------------

    def start_worker(self, stage: str, worker: str) -> RunProcess:
        """Start the next incarnation of a worker, in a client endpoint that no living process holds."""
        with self._lock:  # until it holds its endpoint
            incarnation = self._incarnations.get(worker, 0)
            self._incarnations[worker] = incarnation + 1
            held = {member.endpoint for member in self.members if member.alive}
            endpoint = next((endpoint for endpoint in self._worker_endpoints if endpoint not in held), None)
            if endpoint is None:
                raise StartFailed(f"no client endpoint is free for {worker}: {len(held)} are held")
            facts = self._stages[stage]
            task = WorkerSpec(
                stage=stage,
                worker=worker,
                process=sum(self._incarnations.values()) - 1,
                group=facts.group,
                transactional_id=facts.transactional_ids.get(worker),
            )
            return self._start(self._programs[stage], f"{worker}.{incarnation}", endpoint, task)

    def start_other(
        self, journal: str, endpoint: str, task: FeederSpec | ObserverSpec | ReaderSpec
    ) -> RunProcess:
        """Start a feeder, an observer or a final reader."""
        return self._start(self._own, journal, endpoint, task)

    def _start(self, program: Program, journal: str, endpoint: str, task: TaskSpec) -> RunProcess:
        ours, theirs = socket.socketpair()
        spec = ProcessSpec(
            JournalSpec(journal, self.folder / "journals" / f"{journal}.jsonl", self._clock.zero_ns),
            bootstrap=self._bootstrap_for(endpoint),
            control_fd=theirs.fileno(),
            task=task,
        )
        command_line = program.command_line(spec)
        rules = command_line.rules
        child = self._supervisor.spawn(
            command_line.argv,
            log_file=self.folder / "workers" / f"{journal}.log",
            name=journal,
            env=command_line.env,
            pass_fds=command_line.pass_fds,
            cwd=command_line.cwd,
            bounded=rules is not None,
        )
        theirs.close()
        if rules is not None:
            ours.close()
        channel = ours if rules is None else None
        member = RunProcess(journal, task.role, endpoint, child, channel, spec.worker, rules=rules)
        with self._lock:
            self.members.append(member)
        if channel is not None:
            member.listener = threading.Thread(
                target=self._hear, args=(member, channel), name=f"hear {journal}", daemon=True
            )
            member.listener.start()
        return member

    @staticmethod
    def _hear(member: RunProcess, channel: socket.socket) -> None:
        """Take in what a member tells, until it ends or is killed."""
        with suppress(ConnectionResetError), channel.makefile("rb") as lines:
            for line in lines:
                member.status.take(Report.parse(line))

    def await_ready(self, members: Sequence[RunProcess], tell: Callable[[str], None] | None = None) -> None:
        """Wait until each has said that it is ready, or is seen to be; raises StartFailed for one that ended.

        `tell` is given once what is still awaited, if that takes long.
        """

        def ready() -> bool:
            for member in members:
                if not member.alive and not member.status.ready:
                    raise StartFailed(f"{member.journal} ended at its start: {member.last_output()}")
            return self._all_up(members)

        def not_ready() -> str:
            return "; ".join(describe_not_ready(m, self._members_of) for m in members if not m.status.ready)

        within_s = max((m.rules.ready_within_s for m in members if m.rules), default=START_TIMEOUT_S)
        wait_for(ready, "all workers to be ready", within_s, last_seen=not_ready, tell=tell)

    def _all_up(self, members: Sequence[RunProcess]) -> bool:
        """Whether each has said that it is ready, or is seen to be; which is noted."""
        for member in members:  # what is heard meanwhile stays: each says it once
            if not member.status.ready and is_ready(member, self._members_of, self.workers()):
                member.status.ready = True
        return all(member.status.ready for member in members)

    # -- knowing ----------------------------------------------------------------------------

    def workers(self, stage: str | None = None) -> list[RunProcess]:
        """The living incarnations that no other has replaced."""
        return [
            member
            for member in self.members
            if member.role is Role.WORKER
            and member.alive
            and not member.expected_to_end
            and stage in (None, member.stage)
        ]

    def is_starting(self, stage: str) -> bool:
        """Whether an incarnation of the stage is not ready yet."""
        return not self._all_up(self.workers(stage))

    def counts(self) -> Counts:
        """Transactions and inputs of all workers that ever were, summed."""
        return sum((member.status.counts for member in list(self.members)), Counts())

    def unread(self) -> list[tuple[str, int]]:
        """The journals of workers that have ended, and had partitions left that they were to read to the end."""
        return [(member.journal, member.status.unread) for member in self.members if member.status.unread]

    # -- striking ---------------------------------------------------------------------------

    def wait_at_step(
        self,
        member: RunProcess,
        step: WorkerStep,
        timeout_s: float,
        asked: str | None = None,
        *,
        onward: bool = False,
    ) -> Claims:
        """Have it come to a step and wait there; returns the inputs that it has in hand, by partition.

        With `asked` it waits only in a transaction that is to end so: commit or abort. `onward`: it goes there from
        a step at which it waits. Raises `WaitTimeout` where it does not come, because it has nothing to do or has
        ended.
        """
        with self._lock:
            member.reserved = True
        member.status.at = None
        member.send(Command(arm=step.value, asked=asked, go=onward))
        awaited = f"{member.journal} to come to {step.value}"

        def at() -> bool:
            if not member.alive:
                raise WaitTimeout(awaited, timeout_s, f"it ended: {member.last_output()}")
            return member.status.at == step.value

        try:
            wait_for(at, awaited, timeout_s, last_seen=lambda: member.status)
        except WaitTimeout:
            member.send(Command(disarm=True, go=True))  # nobody will strike it there any more
            raise
        return dict(member.status.claims)

    def dismiss(self, stage: str, worker: str) -> RunProcess | None:
        """Tell a worker to leave in good order; None while a fault has it in hand, or where it is gone."""
        with self._lock:
            free = (m for m in self.workers(stage) if m.worker == worker and not m.reserved)
            member = next(free, None)
            if member is not None:
                member.expected_to_end = True
        if member is not None:
            member.send(Command(stop=True, go=True))
        return member

    def replace(self, member: RunProcess) -> RunProcess:
        """Put the next incarnation in the place of one that is dead or paused."""
        assert member.stage is not None and member.worker is not None
        member.expected_to_end = True
        return self.start_worker(member.stage, member.worker)

    def replace_dead(self) -> None:
        """Replace workers that ended by themselves, and keep what they said."""
        for member in list(self.members):
            if member.alive or member.expected_to_end:
                continue
            words = f"{member.journal} ended by itself: {member.last_output()}"
            if member.role is Role.WORKER:
                if member.journal not in [
                    one.subject for one in self.unexpected_ends
                ]:  # of one that stays dead
                    self.unexpected_ends.append(unexpected_end(member.journal, words))
                self._require_patience(member, words)
                self.replace(member)
            elif member.role is Role.OBSERVER:
                raise StartFailed(words)

    def _require_patience(self, member: RunProcess, words: str) -> None:
        """Raise where processes keep ending by themselves."""
        if member.rules is None and len(self.unexpected_ends) > MOST_UNEXPECTED_ENDS:
            raise StartFailed(f"workers keep ending by themselves; the last one: {words}")
        exits = sum(one.subject.startswith(f"{member.worker}.") for one in self.unexpected_ends)
        if member.rules is not None and exits >= MOST_EXITS:
            raise PipelineFailed(
                f"{member.worker} keeps exiting ({exits} times); {member.child.ending()}, and its last words were: "
                f"{member.last_output()}"
            )

    # -- stopping ---------------------------------------------------------------------------

    def stop(
        self, members: Sequence[RunProcess], before: Callable[[], None] = lambda: None
    ) -> list[RunProcess]:
        """Ask them all to end, and kill those that do not within the time, after `before`. Returns who was killed."""
        for member in members:
            member.expected_to_end = True
            member.leave()
        begun_s, deaf = time.monotonic(), []
        for member in members:
            try:
                member.child.wait(max(0.0, begun_s + member.stop_within_s - time.monotonic()))
            except WaitTimeout:
                deaf.append(member)
        if deaf:
            before()
        for member in deaf:
            member.child.kill()
        for member in members:
            member.await_listener()
        return deaf

    def others(self, *roles: Role) -> Iterator[RunProcess]:
        """The living members of these roles, zombies too."""
        return (member for member in list(self.members) if member.role in roles and member.alive)
