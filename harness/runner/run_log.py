"""What a run has to tell of itself, gathered as it goes."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from harness.results.membership_changes import MembershipChange
from harness.results.reasons import Reason, ReasonCode
from harness.results.run_metadata import RunMetadata, RunPhase
from harness.results.verdict import FaultReport
from harness.runner.processes import RunClock
from harness.runner.progress import Progress
from harness.witness.request_log import ClientVersions


@dataclass
class StuckCall:
    """One call that lasts too long."""

    journal: str
    call: str
    since_s: float  # of the run
    whom: str  # who should answer; empty: nobody in particular, or nobody knew
    until_s: float | None = None  # the call came back, or the worker ended; None: it still waits

    def reason(self, now_s: float, end: str = "") -> Reason:
        """In words. `end`: what came of it."""
        worker = f"worker {self.journal}"
        if self.until_s is None:
            words = f"{worker} waits in {self.call} since {now_s - self.since_s:.0f} s{end}{self.whom}"
        else:
            words = f"{worker} waited in {self.call} for {self.until_s - self.since_s:.0f} s{self.whom}"
        return Reason(ReasonCode.STALLED, words, self.journal)


@dataclass
class RunLog:
    """Becomes the run's `RunMetadata`."""

    progress: Progress
    clock: RunClock
    phases: list[RunPhase] = field(default_factory=list)
    evidence_problems: list[Reason] = field(default_factory=list)
    unmet_goals: dict[str, str] = field(default_factory=dict)
    unexpected_errors: list[Reason] = field(default_factory=list)
    reports: list[FaultReport] = field(default_factory=list)
    stalls: list[StuckCall] = field(default_factory=list)  # calls of workers that lasted too long
    churn: list[MembershipChange] = field(default_factory=list)
    rows: Mapping[str, int] = field(default_factory=dict)
    compacted: Mapping[str, bool] = field(default_factory=dict)
    refused_logs: Mapping[str, str] = field(default_factory=dict)
    history_crc: int | None = None
    clock_drift_ms: float | None = None
    spoken: ClientVersions = field(default_factory=ClientVersions)  # by the workers, to the brokers
    ran: Sequence[str] = ()  # the clients that the workers ran, as their journals say
    features: Mapping[str, int] = field(default_factory=dict)  # of the cluster, those in force
    rested_ms: float | None = None  # the wall clock when nothing moved any more, where no sentinel has it

    def now_s(self) -> float:
        """Seconds since the run began; negative before."""
        return (time.monotonic_ns() - self.clock.zero_ns) / 1e9

    def add_problem(self, code: ReasonCode, text: str, subject: str = "", remedy: str = "") -> None:
        """Something without which the evidence is not complete: the run is then at best unknown."""
        self.evidence_problems.append(Reason(code, text, subject, remedy))

    def compare_clocks(self) -> None:
        """Note how far the wall clock has moved from the monotonic one since the run began."""
        elapsed_ms = (time.monotonic_ns() - self.clock.zero_ns) / 1e6
        drift_ms = abs(time.time() * 1000 - self.clock.wall_ms_at_zero - elapsed_ms)
        self.clock_drift_ms = max(self.clock_drift_ms or 0.0, round(drift_ms, 3))

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time a part of the run, and tell of it."""
        self.progress.phase(name)
        self.compare_clocks()
        start_s = self.now_s()
        try:
            yield
        finally:
            self.phases.append(RunPhase(name, round(start_s, 3), round(self.now_s(), 3)))

    @contextmanager
    def steps(self) -> Iterator[Callable[[str], None]]:
        """Time several parts of the run, of which each ends when the next is told to begin."""
        with ExitStack() as now:

            def begin(name: str) -> None:
                now.close()
                now.enter_context(self.phase(name))

            yield begin

    def to_metadata(
        self, interrupted: bool, unscheduled: Mapping[str, str], versions: Mapping[str, str]
    ) -> RunMetadata:
        """All of it."""
        return RunMetadata(
            phases=self.phases,
            faults=sorted(self.reports, key=lambda report: report.start_s),
            churn=self.churn,
            unscheduled=unscheduled,
            unmet_goals=self.unmet_goals,
            evidence_problems=self.evidence_problems,
            interrupted=interrupted,
            unexpected_errors=[*self.unexpected_errors, *(one.reason(self.now_s()) for one in self.stalls)],
            versions={**versions, **self._features(), **self._client()},
            requests=self.spoken.versions,
            rows=self.rows,
            compacted=self.compacted,
            refused_logs=self.refused_logs,
            history_crc=self.history_crc,
            clock_drift_ms=self.clock_drift_ms,
            rested_ms=self.rested_ms,
        )

    def _features(self) -> dict[str, str]:
        """The transaction version that is in force, as the cluster said; Kafka leaves out a feature at level 0."""
        if not self.features:
            return {}
        told = {"transaction.version": 0, **self.features}
        return {name: str(told[name]) for name in ("transaction.version", "metadata.version") if name in told}

    def _client(self) -> dict[str, str]:
        """The workers' client, as it says itself, and as it names itself to the brokers."""
        named = {"client": ", ".join(self.spoken.software)} if self.spoken.software else {}
        return {**({"workers' client": ", ".join(self.ran)} if self.ran else {}), **named}
