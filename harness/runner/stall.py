"""A call of a worker's client that lasts too long."""

from dataclasses import dataclass

from harness.results.reasons import Reason, ReasonCode


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
