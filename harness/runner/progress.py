"""The progress of a run, and of a stage that has no consumer group."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.common.errors import FencepostError, StartFailed, WaitTimeout
from harness.common.progress import ProgressSnapshot
from harness.common.wording import join_words, plural, printable
from harness.model.pipeline import PipelineSpec, StageSpec, TopicPartition
from harness.processes.spawn import Supervisor
from harness.processes.specs import ProgressCommand
from harness.results.run_metadata import PROGRESS_FORM, StageProgress
from harness.runner.processes import Processes
from harness.settings.options import Options

BEHIND_S = 20.0
"""Advise a lower rate if the lag exceeds this many seconds of inputs while no fault is active."""
MOST_BYTES = 1 << 20
"""No more of the output is read."""
SHOWN = 160
"""Messages show so many characters of a line."""
Ends = Mapping[TopicPartition, tuple[int, int, int]]
"""By partition: the log start, the last stable offset and the high watermark."""
AskProgress = Callable[[StageSpec], str]
"""Returns what the command of a stage prints. Raises `ProgressNotKnown`."""


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


class ProgressNotKnown(FencepostError):
    """A command or a query did not print the progress of its stage. The message names it and its last output."""


@dataclass(frozen=True)
class ProgressCommands:
    """An `AskProgress` that runs the commands of the stages."""

    commands: Mapping[str, ProgressCommand]  # by stage
    supervisor: Supervisor
    bootstrap: str
    folder: Path  # for the output of the last call: STAGE.progress.out and STAGE.progress.err

    def __call__(self, stage: StageSpec) -> str:
        command = self.commands[stage.name]
        line = command.command_line(self.bootstrap)
        out, err = (self.folder / f"{stage.name}.progress.{end}" for end in ("out", "err"))
        for file in (out, err):
            file.unlink(missing_ok=True)
        name = f"the progress of {stage.name}"
        try:
            child = self.supervisor.spawn(
                line.argv, name=name, log_file=out, error_file=err, env=line.env, cwd=line.cwd
            )
        except StartFailed as error:
            raise ProgressNotKnown(f"{command.words} was not started: {error}") from error
        try:
            status = child.wait(command.within_s)
        except WaitTimeout:
            child.kill()
            why = f"did not end within {command.within_s:g} s"
        else:
            if status == 0:
                return _beginning(out)
            why = f"ended with status {status}" if status > 0 else f"was ended by signal {-status}"
        last = _last_line(err) or _last_line(out) or "it printed nothing"
        raise ProgressNotKnown(f"{command.words} {why}; its last output: {last}")


def _beginning(file: Path) -> str:
    with file.open("rb") as content:
        return content.read(MOST_BYTES).decode(errors="replace")


def _last_line(file: Path) -> str:
    lines = _beginning(file).strip().splitlines()
    return printable(lines[-1].strip(), SHOWN) if lines else ""


def read_progress(text: str, stage: StageSpec, ends: Ends, words: str) -> StageProgress:
    """Read the output of a command: lines `TOPIC PARTITION OFFSET`, or one number of processed inputs.

    Args:
        text: The output. Without a line, nothing is processed yet.
        stage: The stage.
        ends: The partitions of all topics that the stage reads.
        words: Names the command in messages.

    Raises:
        ProgressNotKnown: A line has another form, or cannot be true.
    """
    lines = [line.split() for line in text.splitlines() if line.strip()]
    if len(lines) == 1 and len(lines[0]) == 1 and _is_number(lines[0][0]):
        return StageProgress(processed=int(lines[0][0]))
    positions: dict[TopicPartition, int] = {}
    for line in lines:
        printed = f"{words} printed {printable(' '.join(line), SHOWN)!r}"
        if len(line) != 3 or not (_is_number(line[1]) and _is_number(line[2])):
            raise ProgressNotKnown(f"{printed}, and its output must be {PROGRESS_FORM}")
        partition, offset = (line[0], int(line[1])), int(line[2])
        if line[0] not in stage.reads:
            raise ProgressNotKnown(f"{printed}, and the stage reads {join_words(stage.reads)}")
        if partition not in ends:
            of_topic = sum(topic == line[0] for topic, _ in ends)
            raise ProgressNotKnown(f"{printed}, and {line[0]} has {plural(of_topic, 'partition')}")
        if offset > ends[partition][2]:
            raise ProgressNotKnown(f"{printed}, and this partition ends at offset {ends[partition][2]}")
        if partition in positions:
            raise ProgressNotKnown(
                f"{printed}, after another line for this partition: print its last position only"
            )
        positions[partition] = offset
    return StageProgress(
        positions=tuple((topic, number, offset) for (topic, number), offset in sorted(positions.items()))
    )


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdecimal() and len(word) < 19
