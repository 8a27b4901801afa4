"""Collects the run metadata during a run."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from harness.common.progress import Progress
from harness.protocol.observed_clients import ObservedClients
from harness.results.reasons import Reason, ReasonCode
from harness.results.run_metadata import ProgramClient, RunMetadata, RunPhase, StageProgress
from harness.results.verdict import FaultReport, MembershipChange
from harness.runner.processes import RunClock


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

    def add_problem(self, code: ReasonCode, text: str, subject: str = "", remedy: str = "") -> None:
        """Add a reason why the evidence is not complete. The verdict is then at best unknown."""
        self.evidence_problems.append(Reason(code, text, subject, remedy))

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
