"""Computes the progress of a run from the reports of its processes."""

import time

from harness.common.progress import ProgressSnapshot
from harness.model.pipeline import PipelineSpec
from harness.runner.processes import Processes
from harness.settings.options import Options

BEHIND_S = 20.0
"""Advise a lower rate if the lag exceeds this many seconds of inputs while no fault is active."""


class ProgressMeter:
    """Computes the `ProgressSnapshot`s of a run."""

    def __init__(
        self, processes: Processes, pipeline: PipelineSpec, options: Options, start_s: float
    ) -> None:
        self._processes = processes
        written_topics = set(pipeline.output_topics)
        # Only stages that read the feeder's inputs count for the lag. Later stages do not count.
        self._first = {stage.name for stage in pipeline.stages if not set(stage.reads) & written_topics}
        self._readers = max(1, len(self._first))
        self._counts_known = pipeline.journaled
        self._rate = options.rate
        self._limit_s = options.time_limit_s
        self._start_s = start_s
        self._last = (start_s, 0)
        self._snapshot: ProgressSnapshot | None = None
        self._advised = False

    def snapshot(self, faults: tuple[str, ...]) -> ProgressSnapshot:
        """Return the current state. Call it several times a second: the rate is that of about the last second."""
        counts = self._processes.counts()
        committed = counts.committed
        now_s = time.monotonic()
        last_s, last_committed = self._last
        if now_s - last_s >= 1.0:
            self._last = (now_s, committed)
        processes = list(self._processes.all_processes)
        fed = max((process.status.inputs_acked for process in processes), default=0)
        committed_inputs = sum(
            process.status.counts.inputs for process in processes if process.stage in self._first
        )
        self._snapshot = ProgressSnapshot(
            elapsed_s=now_s - self._start_s,
            left_s=max(0.0, self._start_s + self._limit_s - now_s),
            inputs=fed,
            committed=committed,
            aborted=counts.aborted + counts.failed,
            info=counts.info,
            fenced=counts.fenced,
            rate_tps=(committed - last_committed) / max(now_s - last_s, 0.001),
            lag=max(0, fed - committed_inputs // self._readers) if self._counts_known else None,
            faults=faults,
            counts_known=self._counts_known,
        )
        return self._snapshot

    def advice(self) -> str:
        """Return a warning if the rate is too high for the pipeline, at most once. Otherwise return an empty string."""
        snapshot = self._snapshot
        if self._advised or snapshot is None or snapshot.lag is None or snapshot.faults:
            return ""
        if snapshot.lag < BEHIND_S * self._rate:
            return ""
        self._advised = True
        processed_rate = (snapshot.inputs - snapshot.lag) / max(snapshot.elapsed_s, 0.001)
        return (
            f"inputs arrive faster than the pipeline processes them: {snapshot.lag:,} are waiting, and it processes "
            f"about {processed_rate:,.0f} a second; it will finish them after the time limit, so the run takes longer; "
            "use a lower --rate or a larger --txn-size"
        )
