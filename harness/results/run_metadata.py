"""The run metadata (`metadata.json` in the run folder): facts about the evidence that are not in the tables.

A run writes the file when it ends, also after a failure. A run that was killed leaves none, and is at best unknown.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from harness.common.documents import encode, json_text, read_document
from harness.common.errors import UnreadableInput
from harness.results import Count, Time
from harness.results.reasons import Reason
from harness.results.verdict import FaultReport, MembershipChange

PROGRESS_FORM = "lines TOPIC PARTITION OFFSET (the next offset to read), or one number of processed inputs"
NEW_FIELDS = frozenset({"control", "passed_over", "program_clients", "protocol_crc", "stage_progress"})
"""Fields that the runs of earlier versions do not have."""


class RunPhase(Struct, frozen=True):
    """A part of a run, in seconds since the run began. Negative times are before the clock started."""

    name: str
    start_s: Time
    end_s: Time


class ProgramClient(Struct, frozen=True):
    """An instance of a custom pipeline, as the protocol proxy saw it in the requests of the instance."""

    transactional_ids: Sequence[str]
    without_generation: bool | None
    """Whether it sent offsets without the generation of its consumer. None: no request with offsets was seen."""


class StageProgress(Struct, frozen=True):
    """The progress of a stage without a consumer group, as its own command or query printed it."""

    positions: tuple[tuple[str, Count, Count], ...] = ()  # topic, partition, the next offset to read
    processed: Count | None = None  # the number of processed inputs; None: it printed positions
    left: Count | None = None  # how many inputs were left at that time; None: not known
    not_known: str = ""  # why the last call printed nothing usable; it names the command and its last output

    @property
    def by_partition(self) -> dict[tuple[str, int], int]:
        """The next offset to read, by partition. A partition that is not in it is not begun."""
        return {(topic, partition): offset for topic, partition, offset in self.positions}

    @property
    def total(self) -> int:
        """A number that grows while the stage makes progress."""
        return sum(offset for _, _, offset in self.positions) + (self.processed or 0)


class RunMetadata(Struct, frozen=True):
    """Facts about the evidence that only the run itself knows."""

    phases: Sequence[RunPhase] = []
    faults: Sequence[FaultReport] = []
    churn: Sequence[MembershipChange] = []  # workers that joined and left
    # By fault: why the schedule has no entry for a fault that was permitted.
    unscheduled: Mapping[str, str] = {}
    # By goal: why the run did not reach it.
    unmet_goals: Mapping[str, str] = {}
    # Why the evidence is not complete, for instance because a stage was not drained.
    evidence_problems: Sequence[Reason] = []
    interrupted: bool = False
    # Processes that ended by themselves, and errors that are not in the table of errors.
    unexpected_errors: Sequence[Reason] = []
    versions: Mapping[str, str] = {}
    # By request (`EndTxn`): the versions that the workers sent. Empty if requests were not recorded.
    requests: Mapping[str, Sequence[int]] = {}
    # By journal of an instance (`bill-3.0`). Without a protocol proxy on its links, an instance is not in it.
    program_clients: Mapping[str, ProgramClient] = {}
    # By stage with [stage.progress]: what it printed last.
    stage_progress: Mapping[str, StageProgress] = {}
    # By group: partitions (`in/4`) that an input topic got during the run, and that the group did not read in time.
    passed_over: Mapping[str, Sequence[str]] = {}
    # By table: the rows that the run wrote. Empty if they were not counted.
    rows: Mapping[str, int] = {}
    control: str | None = (
        None  # the folder of the same run without faults, from this one; None: there was none
    )
    history_crc: int | None = None  # CRC-32 of history.jsonl; None if the run promises no such file
    protocol_crc: int | None = None  # CRC-32 of protocol.jsonl; None if the run has no protocol proxy
    compacted: Mapping[str, bool] = {}  # by topic, as configured at the end
    # By topic: why the cluster did not give its log, and what the user can do.
    refused_logs: Mapping[str, str] = {}
    # How far the wall clock moved against the monotonic clock. None: not measured.
    clock_drift_ms: float | None = None
    # The wall clock time after which the pipeline wrote nothing more. None: sentinels mark it, or it is not known.
    rested_ms: float | None = None

    def save(self, path: Path) -> None:
        """Write the file atomically."""
        part = path.with_suffix(".part")
        part.write_text(json_text(encode(self), indent=1) + "\n", encoding="utf-8")
        part.replace(path)

    @classmethod
    def load(cls, path: Path) -> "RunMetadata":
        """Read the file. Raises `UnreadableInput`, which names it."""
        try:
            return read_document(path, cls, new=NEW_FIELDS)
        except (OSError, ValueError) as error:
            raise UnreadableInput(f"{path} cannot be read: {error}") from error
