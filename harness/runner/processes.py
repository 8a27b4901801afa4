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
from harness.processes.messages import Claims, Command, Counts, Report
from harness.processes.preload import Preload
from harness.processes.spawn import Supervisor
from harness.processes.specs import (
    FeederSpec,
    JournalSpec,
    ObserverSpec,
    ProcessSpec,
    Program,
    ReaderSpec,
    TaskSpec,
    WorkerSpec,
)
from harness.results.reasons import Reason, ReasonCode
from harness.runner.run_process import RunProcess, describe_not_ready, is_ready

START_TIMEOUT_S = 60.0
MAX_UNEXPECTED_ENDS = 20
"""The run fails after more than this many unexpected ends of its workers."""
MAX_EXITS = 8
"""If one instance of a custom pipeline ends by itself this many times, the run ends. A few ends are legal: for example,
a program may exit because it was fenced."""
HARNESS_ENDPOINT = "harness-clients"


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
        group_members: Callable[[str], tuple[str, ...] | None] = lambda group: (),
        preload: Path | None = None,
    ) -> None:
        self._supervisor = supervisor
        self.folder = folder
        self._clock = clock
        self._bootstrap_for = bootstrap_for
        self._worker_endpoints = tuple(worker_endpoints)
        self._stages = {stage.name: stage for stage in stages}
        self._programs = programs  # by stage
        self._harness_program = harness_program  # of the feeder, the observer and the final readers
        self._group_members = group_members  # the members of a group; None while it is not stable
        self._preload = preload  # the library with which faults change the clocks of workers, if one does
        self._preloads = supervisor.scratch_folder("workers") if preload else Path()
        self._lock = threading.RLock()
        self._incarnations: dict[str, int] = {}
        self.all_processes: list[RunProcess] = []
        self.unexpected_ends: list[Reason] = []
        (folder / "journals").mkdir(exist_ok=True)
        (folder / "workers").mkdir(exist_ok=True)

    # -- starting ---------------------------------------------------------------------------

    def start_worker(self, stage: str, worker: str) -> RunProcess:
        """Start the next incarnation of a worker, in a client endpoint that no live process uses.

        Raises `StartFailed` if no endpoint is free.
        """
        with self._lock:  # until the process is in the list, so that no other worker gets the same endpoint
            incarnation = self._incarnations.get(worker, 0)
            self._incarnations[worker] = incarnation + 1
            used = {process.endpoint for process in self.all_processes if process.alive}
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
        preload = Preload(self._preload, self._preloads / journal) if self._preload and spec.worker else None
        child = self._supervisor.spawn(
            command_line.argv,
            log_file=self.folder / "workers" / f"{journal}.log",
            name=journal,
            env={**command_line.env, **(preload.env if preload else {})},
            pass_fds=command_line.pass_fds,
            cwd=command_line.cwd,
            bounded=rules is not None,
        )
        process_end.close()
        if rules is not None:
            run_end.close()
        channel = run_end if rules is None else None
        process = RunProcess(
            journal, task.role, endpoint, child, channel, spec.worker, rules=rules, preload=preload
        )
        with self._lock:
            self.all_processes.append(process)
        if channel is not None:
            process.listener = threading.Thread(
                target=self._read_reports, args=(process, channel), name=f"reports of {journal}", daemon=True
            )
            process.listener.start()
        return process

    @staticmethod
    def _read_reports(process: RunProcess, channel: socket.socket) -> None:
        """Read the reports of a process until it ends or is killed."""
        with suppress(ConnectionResetError), channel.makefile("rb") as lines:
            for line in lines:
                process.status.update(Report.parse(line))

    def await_ready(
        self, processes: Sequence[RunProcess], report_wait: Callable[[str], None] | None = None
    ) -> None:
        """Wait until each process is ready.

        If the wait takes long, `report_wait` is called once with a message that says what is missing.

        Raises:
            StartFailed: A process ended before it was ready.
            WaitTimeout: A process was not ready in time.
        """

        def ready() -> bool:
            for process in processes:
                if not (process.alive or process.status.ready or self._is_done(process)):
                    raise StartFailed(f"{process.journal} ended while it started: {process.last_output()}")
            return self._all_ready(processes)

        def not_ready() -> str:
            workers = self.workers()
            return "; ".join(
                describe_not_ready(process, self._group_members, workers)
                for process in processes
                if not process.status.ready
            )

        within_s = max((m.rules.ready_within_s for m in processes if m.rules), default=START_TIMEOUT_S)
        wait_for(ready, "all processes to be ready", within_s, last_seen=not_ready, report_wait=report_wait)

    def _all_ready(self, processes: Sequence[RunProcess]) -> bool:
        """Return whether all processes are ready. Set `ready` of instances that `is_ready` finds ready."""
        for process in processes:
            if not process.status.ready and self._is_ready(process):
                process.status.ready = True
        return all(process.status.ready for process in processes)

    def _is_ready(self, process: RunProcess) -> bool:
        """Return whether an instance is ready.

        A job may end before it joins its group, so it is ready when it has started. With a line in `ready`, it is ready
        when it has printed the line, or has ended with status 0.
        """
        waits_for_line = process.rules is not None and process.rules.ready is not None
        if self._is_done(process) or (self._is_job(process) and not waits_for_line):
            return True
        return is_ready(process, self._group_members, self.workers())

    def _is_job(self, process: RunProcess) -> bool:
        return process.stage is not None and self._stages[process.stage].is_job

    def _is_done(self, process: RunProcess) -> bool:
        """Return whether an instance of a job has ended with status 0."""
        return self._is_job(process) and process.child.poll() == 0

    # -- state ------------------------------------------------------------------------------

    def workers(self, stage: str | None = None) -> list[RunProcess]:
        """Return the live workers, except those that were replaced or asked to end."""
        return [
            process
            for process in self.all_processes
            if process.role is Role.WORKER
            and process.alive
            and not process.expected_to_end
            and stage in (None, process.stage)
        ]

    def is_starting(self, stage: str) -> bool:
        """Return whether a worker of the stage is not ready yet."""
        return not self._all_ready(self.workers(stage))

    def is_over(self, stage: str) -> bool:
        """Return whether the stage is a job that is not started again, and all its instances are done."""
        instances = [each for each in self.all_processes if each.stage == stage and not each.expected_to_end]
        return self._stages[stage].every_s is None and all(map(self._is_done, instances))

    def counts(self) -> Counts:
        """Return the sum of the counts of all workers, including those that have ended."""
        return sum((process.status.counts for process in list(self.all_processes)), Counts())

    def unread(self) -> list[tuple[str, int]]:
        """Return (journal, number of unread partitions) of each worker that did not read every partition to its end."""
        return [
            (process.journal, process.status.unread)
            for process in self.all_processes
            if process.status.unread
        ]

    # -- faults -----------------------------------------------------------------------------

    def hold_at_step(
        self,
        process: RunProcess,
        step: WorkerStep,
        timeout_s: float,
        intended_end: str | None = None,
        *,
        resume: bool = False,
    ) -> Claims:
        """Let a worker run until it reaches a step, and hold it there.

        Args:
            process: The worker.
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
            process.held_by_fault = True
        process.status.step = None
        process.send(Command(arm=step.value, intended_end=intended_end, go=resume))
        awaited = f"{process.journal} to come to {step.value}"

        def at() -> bool:
            if not process.alive:
                raise WaitTimeout(awaited, timeout_s, f"it ended: {process.last_output()}")
            return process.status.step == step.value

        try:
            wait_for(at, awaited, timeout_s, last_seen=lambda: process.status)
        except WaitTimeout:
            process.send(Command(disarm=True, go=True))  # no fault waits for it there any more
            raise
        return dict(process.status.claims)

    def ask_to_leave(self, process: RunProcess) -> bool:
        """Ask a worker to end cleanly. Return false if it has ended, or if a fault holds it at a step."""
        with self._lock:
            if not process.alive or process.expected_to_end or process.held_by_fault:
                return False
            process.expected_to_end = True
        process.ask_to_stop()
        return True

    def replace(self, process: RunProcess) -> RunProcess:
        """Start the next incarnation of a worker that is dead or paused."""
        assert process.stage is not None and process.worker is not None
        process.expected_to_end = True
        return self.start_worker(process.stage, process.worker)

    def replace_dead(self) -> None:
        """Replace workers that ended unexpectedly, and store the warnings. Start jobs again when they are due.

        Raises `StartFailed` or `PipelineFailed`.
        """
        for process in list(self.all_processes):
            if process.alive or process.expected_to_end:
                continue
            if self._is_done(process):
                self._start_again_if_due(process)
                continue
            message = f"{process.journal} ended unexpectedly: {process.last_output()}"
            if process.role is Role.WORKER:
                if process.journal not in [
                    end.subject for end in self.unexpected_ends
                ]:  # one warning per process
                    self.unexpected_ends.append(unexpected_end(process.journal, message))
                self._check_exits(process, message)
                self.replace(process)
            elif process.role is Role.OBSERVER:
                raise StartFailed(message)

    def _start_again_if_due(self, process: RunProcess) -> None:
        """Start an instance of a job again if its period has passed since its last start."""
        every_s = self._stages[process.stage or ""].every_s
        if every_s is not None and time.monotonic_ns() - process.started_ns >= every_s * 1e9:
            self.replace(process)

    def _check_exits(self, process: RunProcess, message: str) -> None:
        """Raise if workers end unexpectedly again and again."""
        if process.rules is None and len(self.unexpected_ends) > MAX_UNEXPECTED_ENDS:
            raise StartFailed(f"workers end unexpectedly again and again; the last one: {message}")
        exits = sum(end.subject.startswith(f"{process.worker}.") for end in self.unexpected_ends)
        if process.rules is not None and exits >= MAX_EXITS:
            raise PipelineFailed(
                f"{process.worker} exited {exits} times; {process.child.ending()}, and its last output was: "
                f"{process.last_output()}"
            )

    # -- stopping ---------------------------------------------------------------------------

    def stop(
        self, processes: Sequence[RunProcess], before_kill: Callable[[], None] = lambda: None
    ) -> list[RunProcess]:
        """Ask processes to end. Kill those that do not end in time, and return them.

        `before_kill` is called once before the first kill.
        """
        for process in processes:
            process.expected_to_end = True
            process.ask_to_stop()
        start_s, unresponsive = time.monotonic(), []
        for process in processes:
            try:
                process.child.wait(max(0.0, start_s + process.stop_within_s - time.monotonic()))
            except WaitTimeout:
                unresponsive.append(process)
        if unresponsive:
            before_kill()
        for process in unresponsive:
            process.child.kill()
        for process in processes:
            process.await_listener()
        return unresponsive

    def alive_in_roles(self, *roles: Role) -> Iterator[RunProcess]:
        """Return the live processes of these roles, including workers that were paused and replaced."""
        return (process for process in list(self.all_processes) if process.role in roles and process.alive)
