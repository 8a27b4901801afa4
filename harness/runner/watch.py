"""What is known of a run while it goes on: read off what its processes have told."""

import time

from harness.model.pipeline import PipelineSpec
from harness.runner.processes import Processes
from harness.runner.progress import Tick
from harness.settings.options import Options

BEHIND_S = 20.0
"""Inputs of so many seconds that nobody has taken yet, while no fault is on: the rate is beyond the pipeline."""


class Watch:
    """The state of a run, tick by tick."""

    def __init__(
        self, processes: Processes, pipeline: PipelineSpec, options: Options, begun_s: float
    ) -> None:
        self._processes = processes
        written = set(pipeline.written)
        # Lag is told of the stages that take what is fed, and not of those behind them.
        self._first = {stage.name for stage in pipeline.stages if not set(stage.reads) & written}
        self._readers = max(1, len(self._first))
        self._told = pipeline.journaled
        self._rate = options.rate
        self._limit_s = options.time_limit_s
        self._begun_s = begun_s
        self._last = (begun_s, 0)
        self._tick: Tick | None = None
        self._advised = False

    def tick(self, faults: tuple[str, ...]) -> Tick:
        """How it goes now."""
        counts = self._processes.counts()
        committed = counts.committed
        now_s = time.monotonic()
        before_s, before = self._last
        if now_s - before_s >= 1.0:
            self._last = (now_s, committed)
        members = list(self._processes.members)
        fed = max((member.status.fed for member in members), default=0)
        done = sum(member.status.counts.inputs for member in members if member.stage in self._first)
        self._tick = Tick(
            elapsed_s=now_s - self._begun_s,
            left_s=max(0.0, self._begun_s + self._limit_s - now_s),
            inputs=fed,
            committed=committed,
            aborted=counts.aborted + counts.failed,
            info=counts.info,
            fenced=counts.fenced,
            rate_tps=(committed - before) / max(now_s - before_s, 0.001),
            lag=max(0, fed - done // self._readers) if self._told else None,
            faults=faults,
            told=self._told,
        )
        return self._tick

    def advice(self) -> str:
        """Said once, where inputs come faster than the pipeline takes them; else empty."""
        tick = self._tick
        if self._advised or tick is None or tick.lag is None or tick.faults:
            return ""
        if tick.lag < BEHIND_S * self._rate:
            return ""
        self._advised = True
        taken_rate = (tick.inputs - tick.lag) / max(tick.elapsed_s, 0.001)
        return (
            f"inputs come faster than the pipeline takes them: {tick.lag:,} wait, and it takes about "
            f"{taken_rate:,.0f} a second; it will finish them after the time limit, or use a lower --rate or a "
            "larger --txn-size"
        )
