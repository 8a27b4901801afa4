"""Collect the run metadata during a run, with slow client calls and the clients that workers used.

A separate thread of a worker reports a slow call (`harness.roles.control`). If the call returns, it leads to a warning.
If the run has to kill the worker during the call, the verdict is unknown, because the operation has no completion.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from harness.common.errors import FencepostError
from harness.common.progress import Progress
from harness.environment.versions import RunningClient
from harness.model.pipeline import StageSpec
from harness.model.vocabulary import Role
from harness.protocol.observed_clients import ObservedClients
from harness.record.events import JournalBegan, NotAnEvent, parse
from harness.results.reasons import Reason, ReasonCode
from harness.results.run_metadata import ProgramClient, RunMetadata, RunPhase, StageProgress
from harness.results.verdict import FaultReport, MembershipChange
from harness.runner.nemesis import FaultContext
from harness.runner.processes import RunClock
from harness.runner.run_process import STOP_TIMEOUT_S, RunProcess
from harness.settings.kinds import ClientChoice

GROUP_CALL = "send_offsets_to_transaction"


@dataclass
class SlowCall:
    """A client call of a worker that takes too long."""

    journal: str
    call: str
    since_s: float  # since the start of the run
    clauses: str  # the end of the sentence: who should answer, what is known of the client; may be empty
    until_s: float | None = None  # when the call returned or the worker ended; None: the call still waits

    def reason(self, now_s: float, suffix: str = "") -> Reason:
        """Return a reason or warning. `suffix` is inserted after the duration, if the call has not returned."""
        worker = f"worker {self.journal}"
        if self.until_s is None:
            wait = f"has waited in {self.call} for {now_s - self.since_s:.0f} s{suffix}"
        else:
            wait = f"waited in {self.call} for {self.until_s - self.since_s:.0f} s"
        return Reason(ReasonCode.STALLED, f"{worker} {wait}{self.clauses}", self.journal)


@dataclass
class RunLog:
    """The run metadata so far. `to_metadata` makes the final `RunMetadata`."""

    progress: Progress
    clock: RunClock
    client_notes: str = ""  # what is known of the version of the client that the user chose
    phases: list[RunPhase] = field(default_factory=list)
    evidence_problems: list[Reason] = field(default_factory=list)
    unmet_goals: dict[str, str] = field(default_factory=dict)
    unexpected_errors: list[Reason] = field(default_factory=list)
    reports: list[FaultReport] = field(default_factory=list)
    slow_calls: list[SlowCall] = field(default_factory=list)  # client calls of workers that took too long
    churn: list[MembershipChange] = field(default_factory=list)
    rows: Mapping[str, int] = field(default_factory=dict)
    compacted: Mapping[str, bool] = field(default_factory=dict)
    unreadable_logs: Mapping[str, str] = field(default_factory=dict)
    history_crc: int | None = None
    protocol_crc: int | None = None
    control: str | None = None
    clock_drift_ms: float | None = None
    # The clients of the workers, as the protocol proxy has seen them. Empty if it is not on their links.
    requests: ObservedClients = field(default_factory=ObservedClients)
    program_clients: Mapping[str, ProgramClient] = field(default_factory=dict)
    stage_progress: Mapping[str, StageProgress] = field(default_factory=dict)  # by stage
    passed_over: dict[str, list[str]] = field(default_factory=dict)  # by group: see `RunMetadata`
    clients: Sequence[str] = ()  # the clients of the workers, from their journals
    # The finalized level of each feature of the cluster.
    features: Mapping[str, int] = field(default_factory=dict)
    # The wall-clock time when the end offsets were read. None: sentinels mark the ends, or
    # the offsets could not be read.
    end_offsets_read_ms: float | None = None

    def now_s(self) -> float:
        """Return the seconds since the start of the run; negative before it."""
        return (time.monotonic_ns() - self.clock.zero_ns) / 1e9

    def add_problem(
        self, code: ReasonCode, text: str, subject: str = "", remedy: str = "", because: str = ""
    ) -> None:
        """Add a reason why the evidence is not complete. The verdict is then at best unknown."""
        self.evidence_problems.append(Reason(code, text, subject, remedy, because))

    def compare_clocks(self) -> None:
        """Update the largest drift between the wall clock and the monotonic clock since the start."""
        elapsed_ms = (time.monotonic_ns() - self.clock.zero_ns) / 1e6
        drift_ms = abs(time.time() * 1000 - self.clock.wall_ms_at_zero - elapsed_ms)
        self.clock_drift_ms = max(self.clock_drift_ms or 0.0, round(drift_ms, 3))

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Show a phase of the run and measure its duration."""
        self.progress.phase(name)
        self.compare_clocks()
        start_s = self.now_s()
        try:
            yield
        finally:
            self.phases.append(RunPhase(name, round(start_s, 3), round(self.now_s(), 3)))

    @contextmanager
    def consecutive_phases(self) -> Iterator[Callable[[str], None]]:
        """Yield a function that begins a phase. A phase ends when the next one begins."""
        with ExitStack() as current:

            def begin(name: str) -> None:
                current.close()
                current.enter_context(self.phase(name))

            yield begin

    def to_metadata(
        self, interrupted: bool, unscheduled: Mapping[str, str], versions: Mapping[str, str]
    ) -> RunMetadata:
        """Return the complete run metadata."""
        return RunMetadata(
            phases=self.phases,
            faults=sorted(self.reports, key=lambda report: report.start_s),
            churn=self.churn,
            unscheduled=unscheduled,
            unmet_goals=self.unmet_goals,
            evidence_problems=self.evidence_problems,
            interrupted=interrupted,
            unexpected_errors=[
                *self.unexpected_errors,
                *(slow_call.reason(self.now_s()) for slow_call in self.slow_calls),
            ],
            versions={**versions, **self._features(), **self._client()},
            requests=self.requests.versions,
            program_clients=self.program_clients,
            stage_progress=dict(self.stage_progress),
            passed_over=dict(self.passed_over),
            rows=self.rows,
            compacted=self.compacted,
            refused_logs=self.unreadable_logs,
            history_crc=self.history_crc,
            protocol_crc=self.protocol_crc,
            control=self.control,
            clock_drift_ms=self.clock_drift_ms,
            rested_ms=self.end_offsets_read_ms,
        )

    def _features(self) -> dict[str, str]:
        """Return the feature levels to show.

        Kafka leaves out a feature at level 0, so `transaction.version` defaults to 0.
        """
        if not self.features:
            return {}
        levels = {"transaction.version": 0, **self.features}
        return {
            name: str(levels[name]) for name in ("transaction.version", "metadata.version") if name in levels
        }

    def _client(self) -> dict[str, str]:
        """Return two names of the workers' client: the name in their journals, and the name in their requests."""
        clients = {"workers' client": ", ".join(self.clients)} if self.clients else {}
        software = {"client": ", ".join(self.requests.software)} if self.requests.software else {}
        return {**clients, **software}


def update_slow_calls(context: FaultContext, run_log: RunLog) -> None:
    """Update the list of long calls from the reports of the workers, and show new ones."""
    now_s = run_log.now_s()
    for process in list(context.processes.all_processes):
        since_ns = process.status.slow_call_since_ns
        for slow_call in run_log.slow_calls:
            ended = since_ns / 1e9 != slow_call.since_s or not process.alive
            if slow_call.journal == process.journal and slow_call.until_s is None and ended:
                slow_call.until_s = now_s
        known = any(
            (slow_call.journal, slow_call.since_s) == (process.journal, since_ns / 1e9)
            for slow_call in run_log.slow_calls
        )
        if since_ns and not known and process.role is Role.WORKER and process.alive:
            slow_call = SlowCall(
                process.journal, process.status.slow_call, since_ns / 1e9, _clauses(process, context, run_log)
            )
            run_log.slow_calls.append(slow_call)
            run_log.progress.say(slow_call.reason(now_s).text)


def explain_kill(process: RunProcess, context: FaultContext, run_log: RunLog) -> Reason:
    """Return the reason for a process that had to be killed at the end.

    The reason names the call in which the process waited.
    """
    slow_calls = [
        slow_call
        for slow_call in run_log.slow_calls
        if slow_call.journal == process.journal and slow_call.until_s is None
    ]
    if not slow_calls:
        message = f"{process.journal} did not end within {STOP_TIMEOUT_S:g} s and was killed"
        return Reason(ReasonCode.DID_NOT_END, message, process.journal)
    (slow_call,) = slow_calls
    run_log.slow_calls.remove(slow_call)
    slow_call.clauses = _clauses(process, context, run_log)  # the coordinator may have changed
    return slow_call.reason(run_log.now_s(), ", and was killed")


def _clauses(process: RunProcess, context: FaultContext, run_log: RunLog) -> str:
    """Return the end of a sentence: the broker that should answer the worker's current call, and what is known of the
    client.
    """
    stage = next((stage for stage in context.stages if stage.name == process.stage), None)
    coordinator = _coordinator(process, stage, context) if stage else ""
    notes, call = run_log.client_notes, process.status.slow_call
    return coordinator + (f"; known of this client: {notes}" if call and call in notes else "")


def _coordinator(process: RunProcess, stage: StageSpec, context: FaultContext) -> str:
    transactional_id = stage.transactional_ids.get(process.worker or "")
    try:
        if process.status.slow_call == GROUP_CALL and stage.group is not None:
            broker = context.cluster.group_coordinator(stage.group)
            return f"; the coordinator of its group {stage.group} is broker {broker} now"
        if transactional_id is not None:
            broker = context.cluster.txn_coordinator(transactional_id)
            return f"; the coordinator of its transactional id {transactional_id} is broker {broker} now"
    except FencepostError:
        return "; its coordinator is not known now"
    return ""


def record_clients(folder: Path, choice: ClientChoice, run_log: RunLog) -> None:
    """Store the clients of the workers in the run log.

    If the user chose a client version, each worker must have recorded exactly this client. Otherwise add an evidence
    problem, because the run says nothing about the client that the user chose.
    """
    clients = dict(read_worker_clients(folder))
    run_log.clients = tuple(sorted({str(client) for client in clients.values() if client is not None}))
    if choice.version is None:
        return
    for journal, client in sorted(clients.items()):
        if client is None or (client.name, client.version) != (choice.name, choice.version):
            chosen = f"--client {choice.name}:{choice.version}"
            message = (
                f"{journal} does not record its client, so it is not known whether it used {chosen}"
                if client is None
                else f"{journal} used {client}, but {chosen} was chosen"
            )
            run_log.add_problem(ReasonCode.OTHER_CLIENT, message, journal)


def read_worker_clients(folder: Path) -> Iterator[tuple[str, RunningClient | None]]:
    """Yield each worker's journal with a complete first line, and its client, or None if it does not record one."""
    for path in sorted((folder / "journals").glob("*.jsonl")):
        with path.open("rb") as lines:
            head = _first_event(lines.readline())
        if head is not None and head.role == Role.WORKER.value:
            yield path.stem, _client(head)


def _client(head: JournalBegan) -> RunningClient | None:
    if head.client is None or head.client_version is None:
        return None
    return RunningClient(head.client, head.client_version, head.library_version)


def _first_event(line: bytes) -> JournalBegan | None:
    """Return the event of a first line. None: it is torn or of another kind; the tables count it as missing."""
    try:
        event = parse(orjson.loads(line))
    except (NotAnEvent, orjson.JSONDecodeError):
        return None
    return event if isinstance(event, JournalBegan) else None
