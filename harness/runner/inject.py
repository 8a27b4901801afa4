"""Injects the planned faults of a schedule. Each fault has its own thread.

Faults that share a resource are injected one after the other, unless they overlap by plan. Others do not wait for each
other.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from harness.common.errors import FaultFailed, FencepostError
from harness.common.waiting import wait_for
from harness.model.vocabulary import Outcome
from harness.record.events import Completed, Invoked
from harness.record.journal import Journal
from harness.results.verdict import FaultReport
from harness.runner.nemesis import FaultContext, InjectedFault, Nemesis, PlannedFault, TargetMissing
from harness.runner.schedule import must_wait

EARLY_TIMEOUT_S = 30.0


@dataclass
class InjectionState:
    """The results of a schedule so far."""

    reports: list[FaultReport] = field(default_factory=list)
    unmet_goals: dict[str, str] = field(default_factory=dict)
    errors: list[FencepostError] = field(default_factory=list)
    # The names of active faults, by index in the schedule.
    active: dict[int, str] = field(default_factory=dict)


class FaultInjector:
    """Runs the threads that inject faults."""

    def __init__(
        self,
        faults: Sequence[PlannedFault],
        nemeses: Mapping[str, Nemesis],
        context: FaultContext,
        journal: Journal,
    ) -> None:
        self.state = InjectionState()
        self._stop = threading.Event()
        self._context = replace(context, stopping=self._stop.is_set)
        self._journal = journal
        self._start_s = 0.0  # the monotonic clock when the feeder started
        self._nemeses = nemeses
        self._numbers = {id(fault): number for number, fault in enumerate(faults)}
        self._feeding = threading.Event()  # the feeder has started, or `stop` was called
        self._early = [fault for fault in faults if fault.since_start]
        self._later = sorted(
            (fault for fault in faults if not fault.since_start), key=lambda fault: fault.start_s
        )
        self._injected_early: set[int] = set()
        self.journal_lock = threading.Lock()  # the threads and the churn share the journal
        self._changed = threading.Condition()  # a fault is over, or no more faults are to begin
        self._active: dict[threading.Thread, PlannedFault] = {}
        self._thread = threading.Thread(target=self._begin_in_time, name="faults")

    def start_early(self) -> None:
        """Inject the faults that are injected before the first worker starts. Raises `WaitTimeout`.

        An error of a fault is in `state`.
        """
        with self._changed:
            for fault in self._early:
                self._begin(fault)
        wait_for(
            lambda: len(self._injected_early) == len(self._early) or self.state.errors,
            "the rules of the start to be in force",
            EARLY_TIMEOUT_S,
        )

    def start(self, start_s: float) -> None:
        """Begin with the other faults. `start_s` is the monotonic clock when the feeder started."""
        self._start_s = start_s
        self._feeding.set()
        self._thread.start()

    @property
    def overtime_s(self) -> float:
        """How much longer than usual the faults may take after the time limit."""
        return max((self._nemeses[fault.fault].overtime_s for fault in self._later), default=0.0)

    @property
    def finished(self) -> bool:
        """True if all faults are over."""
        return not self._thread.is_alive() and not self._active

    def stop(self) -> None:
        """Inject no more faults, heal the active ones, and wait until they are healed. It may be called again."""
        with self._changed:
            self._stop.set()
            self._feeding.set()
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._active)
        if self._thread.ident is not None:
            self._thread.join()

    def _begin_in_time(self) -> None:
        """Begin each fault when its time has come and no other fault is in its way. Return when all are over."""
        waiting = list(self._later)
        with self._changed:
            while waiting and not self._stop.is_set() and not self.state.errors:
                now_s = time.monotonic() - self._start_s
                due = [fault for fault in waiting if fault.start_s <= now_s]
                for fault in due:
                    earlier = [*self._active.values(), *waiting[: waiting.index(fault)]]
                    if not any(must_wait(fault, other, self._nemeses) for other in earlier):
                        waiting.remove(fault)
                        self._begin(fault)
                later = (fault.start_s - now_s for fault in waiting if fault.start_s > now_s)
                self._changed.wait(next(later, None))
            self._changed.wait_for(lambda: not self._active)

    def _begin(self, fault: PlannedFault) -> None:
        """Start a thread for a fault. The caller holds `_changed`."""
        thread = threading.Thread(target=self._run, args=(fault,), name=f"fault: {fault}")
        self._active[thread] = fault
        thread.start()

    def _run(self, fault: PlannedFault) -> None:
        error: FencepostError | None = FaultFailed(f"{fault.fault} failed because of a bug in Fencepost")
        try:
            self._inject(fault)
            error = None
        except FencepostError as expected:
            error = expected
        finally:  # if a bug ends this thread, the run must notice that the remaining faults were not injected
            self.state.active.pop(self._numbers[id(fault)], None)
            with self._changed:
                if error is not None:
                    self.state.errors.append(error)
                del self._active[threading.current_thread()]
                self._changed.notify_all()

    def _inject(self, fault: PlannedFault) -> None:
        nemesis = self._nemeses[fault.fault]
        number = self._numbers[id(fault)]
        with self.journal_lock:
            op = self._journal.number()
            self._journal.write(
                Invoked(
                    fault.fault,
                    -1,
                    op,
                    target=str(fault.target),
                    parameters=fault.parameters or None,
                )
            )
        start_ns = self._journal.now_ns()
        called_ns = time.monotonic_ns()
        self.state.active[number] = fault.fault
        injected = InjectedFault(str(fault.target))
        end_ns: int | None = None
        try:
            try:
                with nemesis.inject(self._context, fault) as injected:
                    elapsed_s = (self._journal.now_ns() - start_ns) / 1e9
                    if fault.since_start:
                        self._injected_early.add(number)
                        self._feeding.wait()
                        elapsed_s = time.monotonic() - self._start_s
                    self._stop.wait(max(0.0, fault.hold_s - elapsed_s))
            except TargetMissing as missing:
                injected.unmet_goals["target"] = str(missing)
            ended_ns = time.monotonic_ns()
            end_ns = self._journal.now_ns() - (ended_ns - (injected.healed_ns or ended_ns))
        finally:
            proof = "; ".join(injected.proof)
            missing_proof = next(
                iter(injected.unmet_goals.values()), "no evidence shows that the fault had an effect"
            )
            evidence = proof if injected.acted else missing_proof
            outcome = Outcome.OK if end_ns is not None else Outcome.INFO
            with self.journal_lock:
                self._journal.write(
                    Completed(outcome, fault.fault, -1, op, target=injected.target, evidence=evidence)
                )
            end_s = round(end_ns / 1e9, 3) if end_ns is not None else None
            waited_ns = injected.injected_ns - called_ns if injected.injected_ns is not None else 0
            self.state.reports.append(
                FaultReport(
                    fault=fault.fault,
                    target=injected.target,
                    start_s=round((start_ns + waited_ns) / 1e9, 3),
                    end_s=end_s,
                    acted=injected.acted,
                    evidence=evidence,
                    struck=injected.describe(nemesis.past_tense),
                    details=injected.details,
                    halts=nemesis.halts_at(injected.details),
                )
            )
            self.state.unmet_goals.update(injected.unmet_goals)
