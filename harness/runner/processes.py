"""The processes of a run that use Kafka: workers, feeder, observer and final readers.

Each is an operating-system process with its own journal and a control line to the run. If a worker ends, or a fault
makes it a zombie, the next incarnation replaces it. The new incarnation has its own client endpoint, but it is the same
worker and so has the same transactional id.
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
MAX_UNEXPECTED_ENDS = 20
"""The run fails after more than this many unexpected ends of its workers."""
MAX_EXITS = 8
"""If one instance of a custom pipeline ends by itself this many times, the run ends. A few ends are legal: for example,
a program may exit because it was fenced."""
OBSERVER_ENDPOINT = "aside"


@dataclass(frozen=True)
class RunClock:
    """The clock of a run. All its processes count from the same monotonic time."""

    zero_ns: int
    wall_ms_at_zero: float


def unexpected_end(journal: str, message: str) -> Reason:
    """Return the warning that a process ended unexpectedly and was replaced."""
    return Reason(ReasonCode.UNEXPECTED_END, message, journal)


class Processes:
    """Starts, replaces and stops the processes of a run."""

    def __init__(
        self,
        supervisor: Supervisor,
        folder: Path,
        clock: RunClock,
        bootstrap_for: Callable[[str], str],
        worker_endpoints: Sequence[str],
        stages: Sequence[StageSpec],
        programs: Mapping[str, Program],
        harness_program: Program,
        members_of: Callable[[str], tuple[str, ...] | None] = lambda group: (),
    ) -> None:
        self._supervisor = supervisor
        self.folder = folder
        self._clock = clock
        self._bootstrap_for = bootstrap_for
        self._worker_endpoints = tuple(worker_endpoints)
        self._stages = {stage.name: stage for stage in stages}
        self._programs = programs  # by stage
        self._harness_program = harness_program  # of the feeder, the observer and the final readers
        self._members_of = members_of  # the members of a group; None while it is not stable
        self._lock = threading.RLock()
        self._incarnations: dict[str, int] = {}
        self.members: list[RunProcess] = []
        self.unexpected_ends: list[Reason] = []
        (folder / "journals").mkdir(exist_ok=True)
        (folder / "workers").mkdir(exist_ok=True)

    # -- starting ---------------------------------------------------------------------------

    def start_worker(self, stage: str, worker: str) -> RunProcess:
        """Start the next incarnation of a worker, in a client endpoint that no live process uses.

        Raises `StartFailed` if no endpoint is free.
        """
        with self._lock:  # until the process is a member, so that no other worker gets the same endpoint
            incarnation = self._incarnations.get(worker, 0)
            self._incarnations[worker] = incarnation + 1
            used = {member.endpoint for member in self.members if member.alive}
            endpoint = next((endpoint for endpoint in self._worker_endpoints if endpoint not in used), None)
            if endpoint is None:
                raise StartFailed(f"no client endpoint is free for {worker}: {len(used)} are in use")
            stage_spec = self._stages[stage]
            task = WorkerSpec(
                stage=stage,
                worker=worker,
                process=sum(self._incarnations.values()) - 1,
                group=stage_spec.group,
                transactional_id=stage_spec.transactional_ids.get(worker),
            )
            return self._start(self._programs[stage], f"{worker}.{incarnation}", endpoint, task)

    def start_harness_process(
        self, journal: str, endpoint: str, task: FeederSpec | ObserverSpec | ReaderSpec
    ) -> RunProcess:
        """Start a feeder, an observer or a final reader."""
        return self._start(self._harness_program, journal, endpoint, task)

    def _start(self, program: Program, journal: str, endpoint: str, task: TaskSpec) -> RunProcess:
        run_end, process_end = socket.socketpair()
        spec = ProcessSpec(
            JournalSpec(journal, self.folder / "journals" / f"{journal}.jsonl", self._clock.zero_ns),
            bootstrap=self._bootstrap_for(endpoint),
            control_fd=process_end.fileno(),
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
        process_end.close()
        if rules is not None:
            run_end.close()
        channel = run_end if rules is None else None
        member = RunProcess(journal, task.role, endpoint, child, channel, spec.worker, rules=rules)
        with self._lock:
            self.members.append(member)
        if channel is not None:
            member.listener = threading.Thread(
                target=self._read_reports, args=(member, channel), name=f"reports of {journal}", daemon=True
            )
            member.listener.start()
        return member

    @staticmethod
    def _read_reports(member: RunProcess, channel: socket.socket) -> None:
        """Read the reports of a process until it ends or is killed."""
        with suppress(ConnectionResetError), channel.makefile("rb") as lines:
            for line in lines:
                member.status.update(Report.parse(line))

    def await_ready(
        self, members: Sequence[RunProcess], report_wait: Callable[[str], None] | None = None
    ) -> None:
        """Wait until each process is ready.

        If the wait takes long, `report_wait` is called once with a message that says what is missing.

        Raises:
            StartFailed: A process ended before it was ready.
            WaitTimeout: A process was not ready in time.
        """

        def ready() -> bool:
            for member in members:
                if not member.alive and not member.status.ready:
                    raise StartFailed(f"{member.journal} ended while it started: {member.last_output()}")
            return self._all_ready(members)

        def not_ready() -> str:
            workers = self.workers()
            return "; ".join(
                describe_not_ready(member, self._members_of, workers)
                for member in members
                if not member.status.ready
            )

        within_s = max((m.rules.ready_within_s for m in members if m.rules), default=START_TIMEOUT_S)
        wait_for(ready, "all processes to be ready", within_s, last_seen=not_ready, report_wait=report_wait)

    def _all_ready(self, members: Sequence[RunProcess]) -> bool:
        """Return whether all processes are ready. Set `ready` of instances that `is_ready` finds ready."""
        for member in members:
            if not member.status.ready and is_ready(member, self._members_of, self.workers()):
                member.status.ready = True
        return all(member.status.ready for member in members)

    # -- state ------------------------------------------------------------------------------

    def workers(self, stage: str | None = None) -> list[RunProcess]:
        """Return the live workers, except those that were replaced or asked to end."""
        return [
            member
            for member in self.members
            if member.role is Role.WORKER
            and member.alive
            and not member.expected_to_end
            and stage in (None, member.stage)
        ]

    def is_starting(self, stage: str) -> bool:
        """Return whether a worker of the stage is not ready yet."""
        return not self._all_ready(self.workers(stage))

    def counts(self) -> Counts:
        """Return the sum of the counts of all workers, including those that have ended."""
        return sum((member.status.counts for member in list(self.members)), Counts())

    def unread(self) -> list[tuple[str, int]]:
        """Return (journal, number of unread partitions) of each worker that did not read every partition to its end."""
        return [(member.journal, member.status.unread) for member in self.members if member.status.unread]

    # -- faults -----------------------------------------------------------------------------

    def hold_at_step(
        self,
        member: RunProcess,
        step: WorkerStep,
        timeout_s: float,
        intended_end: str | None = None,
        *,
        resume: bool = False,
    ) -> Claims:
        """Let a worker run until it reaches a step, and hold it there.

        Args:
            member: The worker.
            step: The step.
            timeout_s: How long to wait for the worker, in seconds.
            intended_end: Hold it only in a transaction with this intended end: `commit` or `abort`. None: in any.
            resume: The worker is held at another step now, and must first continue from there.

        Returns:
            By partition, the inputs that the worker is processing.

        Raises:
            WaitTimeout: The worker did not reach the step, because it has nothing to do or has ended.
        """
        with self._lock:
            member.held_by_fault = True
        member.status.step = None
        member.send(Command(arm=step.value, intended_end=intended_end, go=resume))
        awaited = f"{member.journal} to come to {step.value}"

        def at() -> bool:
            if not member.alive:
                raise WaitTimeout(awaited, timeout_s, f"it ended: {member.last_output()}")
            return member.status.step == step.value

        try:
            wait_for(at, awaited, timeout_s, last_seen=lambda: member.status)
        except WaitTimeout:
            member.send(Command(disarm=True, go=True))  # no fault waits for it there any more
            raise
        return dict(member.status.claims)

    def ask_to_leave(self, stage: str, worker: str) -> RunProcess | None:
        """Ask a worker to end cleanly, and return it. Return None if it has ended or if a fault reserves it."""
        with self._lock:
            free = (m for m in self.workers(stage) if m.worker == worker and not m.held_by_fault)
            member = next(free, None)
            if member is not None:
                member.expected_to_end = True
        if member is not None:
            member.send(Command(stop=True, go=True))
        return member

    def replace(self, member: RunProcess) -> RunProcess:
        """Start the next incarnation of a worker that is dead or paused."""
        assert member.stage is not None and member.worker is not None
        member.expected_to_end = True
        return self.start_worker(member.stage, member.worker)

    def replace_dead(self) -> None:
        """Replace workers that ended unexpectedly, and store the warnings. Raises `StartFailed` or `PipelineFailed`."""
        for member in list(self.members):
            if member.alive or member.expected_to_end:
                continue
            message = f"{member.journal} ended unexpectedly: {member.last_output()}"
            if member.role is Role.WORKER:
                if member.journal not in [
                    end.subject for end in self.unexpected_ends
                ]:  # one warning per process
                    self.unexpected_ends.append(unexpected_end(member.journal, message))
                self._check_exits(member, message)
                self.replace(member)
            elif member.role is Role.OBSERVER:
                raise StartFailed(message)

    def _check_exits(self, member: RunProcess, message: str) -> None:
        """Raise if workers end unexpectedly again and again."""
        if member.rules is None and len(self.unexpected_ends) > MAX_UNEXPECTED_ENDS:
            raise StartFailed(f"workers end unexpectedly again and again; the last one: {message}")
        exits = sum(end.subject.startswith(f"{member.worker}.") for end in self.unexpected_ends)
        if member.rules is not None and exits >= MAX_EXITS:
            raise PipelineFailed(
                f"{member.worker} exited {exits} times; {member.child.ending()}, and its last output was: "
                f"{member.last_output()}"
            )

    # -- stopping ---------------------------------------------------------------------------

    def stop(
        self, members: Sequence[RunProcess], before_kill: Callable[[], None] = lambda: None
    ) -> list[RunProcess]:
        """Ask processes to end. Kill those that do not end in time, and return them.

        `before_kill` is called once before the first kill.
        """
        for member in members:
            member.expected_to_end = True
            member.ask_to_stop()
        start_s, unresponsive = time.monotonic(), []
        for member in members:
            try:
                member.child.wait(max(0.0, start_s + member.stop_within_s - time.monotonic()))
            except WaitTimeout:
                unresponsive.append(member)
        if unresponsive:
            before_kill()
        for member in unresponsive:
            member.child.kill()
        for member in members:
            member.await_listener()
        return unresponsive

    def alive_in_roles(self, *roles: Role) -> Iterator[RunProcess]:
        """Return the live processes of these roles, including workers that were paused and replaced."""
        return (member for member in list(self.members) if member.role in roles and member.alive)
