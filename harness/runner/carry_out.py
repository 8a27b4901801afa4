"""Carry out a schedule: each lane in a thread of its own, one after the other."""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harness.errors import FaultFailed, FencepostError
from harness.record.journal import Journal
from harness.runner.schedule import Effect, FaultContext, Injection, Lane, Nemesis
from harness.verdict import FaultReport


@dataclass
class Struck:
    """What has become of a schedule so far; filled by the lanes."""

    reports: list[FaultReport] = field(default_factory=list)
    lacking: dict[str, str] = field(default_factory=dict)
    errors: list[FencepostError] = field(default_factory=list)
    on: dict[str, str] = field(default_factory=dict)  # the faults that are on, and their targets


class Lanes:
    """The threads that strike; `stop` heals what is on and injects no more."""

    def __init__(
        self,
        injections: Sequence[Injection],
        nemeses: Mapping[str, Nemesis],
        context: FaultContext,
        journal: Journal,
        begun_s: float,
    ) -> None:
        self.struck = Struck()
        self._scene = context
        self._journal = journal
        self._begun_s = begun_s  # on the monotonic clock: the zero of the schedule
        self._nemeses = nemeses
        self._stop = threading.Event()
        self._writing = threading.Lock()  # the lanes share the journal
        self._threads = [
            threading.Thread(
                target=self._lane,
                args=([injection for injection in injections if nemeses[injection.fault].lane is lane],),
                name=f"{lane.value} faults",
            )
            for lane in Lane
        ]

    def start(self) -> None:
        """Begin to injection."""
        for thread in self._threads:
            thread.start()

    @property
    def done(self) -> bool:
        """Whether every strike was carried out and healed."""
        return not any(thread.is_alive() for thread in self._threads)

    def stop(self) -> None:
        """Heal what is on, strike no more, and wait for it."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _lane(self, injections: Sequence[Injection]) -> None:
        for injection in injections:
            late_s = time.monotonic() - self._begun_s - injection.start_s
            if self._stop.wait(max(0.0, -late_s)):
                return
            error: FencepostError | None = FaultFailed(
                f"{injection.fault} ended in a mistake of Fencepost's own"
            )
            try:
                self._strike(injection)
                error = None
            except FencepostError as known:
                error = known
            finally:  # a lane that dies unsaid would leave its faults unstruck, and the run in good faith
                if error is not None:
                    self.struck.errors.append(error)
                    self.struck.on.pop(injection.fault, None)
            if error is not None:
                return

    def _strike(self, injection: Injection) -> None:
        nemesis = self._nemeses[injection.fault]
        with self._writing:
            op = self._journal.begin(
                injection.fault, -1, {"target": injection.target, "step": injection.step}
            )
        start_ns = self._journal.now_ns()
        self.struck.on[injection.fault] = injection.target
        effect = Effect(injection.target)
        end_ns: int | None = None
        try:
            with nemesis.strike(self._scene, injection) as effect:
                self.struck.on[injection.fault] = effect.target
                elapsed_s = (self._journal.now_ns() - start_ns) / 1e9
                self._stop.wait(max(0.0, injection.hold_s - elapsed_s))
            end_ns = self._journal.now_ns()
        finally:
            evidence = "; ".join(effect.proof) or next(
                iter(effect.lacking.values()), "no sign of it was seen"
            )
            done = {
                "f": injection.fault,
                "process": -1,
                "op": op,
                "target": effect.target,
                "evidence": evidence,
            }
            with self._writing:
                self._journal.write("ok" if end_ns is not None else "info", done)
            end_s = round(end_ns / 1e9, 3) if end_ns is not None else None
            self.struck.reports.append(
                FaultReport(
                    injection.fault, effect.target, round(start_ns / 1e9, 3), end_s, effect.acted, evidence
                )
            )
            self.struck.lacking.update(effect.lacking)
        self.struck.on.pop(injection.fault, None)
