"""Carry out a schedule: injections that share a resource one after the other, the others side by side."""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harness.common.errors import FaultFailed, FencepostError
from harness.model.vocabulary import Outcome
from harness.record.events import Completed, Invoked
from harness.record.journal import Journal
from harness.results.verdict import FaultReport
from harness.runner.nemesis import FaultContext, InjectedFault, Nemesis, PlannedFault
from harness.runner.schedule import sequences


@dataclass
class InjectionState:
    """What has become of a schedule so far."""

    reports: list[FaultReport] = field(default_factory=list)
    unmet_goals: dict[str, str] = field(default_factory=dict)
    errors: list[FencepostError] = field(default_factory=list)
    on: dict[int, str] = field(default_factory=dict)  # the faults that are on, by place in the schedule


class FaultInjector:
    """The threads that inject; `stop` heals what is on and injects no more."""

    def __init__(
        self,
        injections: Sequence[PlannedFault],
        nemeses: Mapping[str, Nemesis],
        context: FaultContext,
        journal: Journal,
        begun_s: float,
    ) -> None:
        self.state = InjectionState()
        self._context = context
        self._journal = journal
        self._begun_s = begun_s  # on the monotonic clock: the zero of the schedule
        self._nemeses = nemeses
        self._numbers = {id(injection): number for number, injection in enumerate(injections)}
        self._stop = threading.Event()
        self.journal_lock = threading.Lock()  # the threads share the journal
        self._threads = [
            threading.Thread(target=self._one_after_another, args=(sequence,), name=f"faults {number}")
            for number, sequence in enumerate(sequences(injections, nemeses))
        ]

    def start(self) -> None:
        """Begin to inject."""
        for thread in self._threads:
            thread.start()

    @property
    def done(self) -> bool:
        """Whether every injection was carried out and healed."""
        return not any(thread.is_alive() for thread in self._threads)

    def stop(self) -> None:
        """Heal what is on, inject no more, and wait for it."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _one_after_another(self, injections: Sequence[PlannedFault]) -> None:
        for injection in injections:
            late_s = time.monotonic() - self._begun_s - injection.start_s
            if self._stop.wait(max(0.0, -late_s)):
                return
            error: FencepostError | None = FaultFailed(
                f"{injection.fault} ended in a mistake of Fencepost's own"
            )
            try:
                self._inject(injection)
                error = None
            except FencepostError as known:
                error = known
            finally:  # a thread that dies unsaid would leave its faults undone, and the run in good faith
                self.state.on.pop(self._numbers[id(injection)], None)
                if error is not None:
                    self.state.errors.append(error)
            if error is not None:
                return

    def _inject(self, injection: PlannedFault) -> None:
        nemesis = self._nemeses[injection.fault]
        number = self._numbers[id(injection)]
        with self.journal_lock:
            op = self._journal.number()
            self._journal.write(
                Invoked(
                    injection.fault,
                    -1,
                    op,
                    target=str(injection.target),
                    parameters=injection.parameters or None,
                )
            )
        start_ns = self._journal.now_ns()
        begun_ns = time.monotonic_ns()
        self.state.on[number] = injection.fault
        effect = InjectedFault(str(injection.target))
        end_ns: int | None = None
        try:
            with nemesis.inject(self._context, injection) as effect:
                elapsed_s = (self._journal.now_ns() - start_ns) / 1e9
                self._stop.wait(max(0.0, injection.hold_s - elapsed_s))
            end_ns = self._journal.now_ns()
        finally:
            proof = "; ".join(effect.proof)
            lacking = next(iter(effect.unmet_goals.values()), "no sign of it was seen")
            evidence = proof if effect.acted else lacking
            outcome = Outcome.OK if end_ns is not None else Outcome.INFO
            with self.journal_lock:
                self._journal.write(
                    Completed(outcome, injection.fault, -1, op, target=effect.target, evidence=evidence)
                )
            end_s = round(end_ns / 1e9, 3) if end_ns is not None else None
            waited_ns = effect.injected_ns - begun_ns if effect.injected_ns is not None else 0
            self.state.reports.append(
                FaultReport(
                    fault=injection.fault,
                    target=effect.target,
                    start_s=round((start_ns + waited_ns) / 1e9, 3),
                    end_s=end_s,
                    acted=effect.acted,
                    evidence=evidence,
                    struck=effect.describe(nemesis.past_tense),
                    details=effect.details,
                )
            )
            self.state.unmet_goals.update(effect.unmet_goals)
