"""The run metadata (`metadata.json` in the run folder): facts about the evidence that are not in the tables.

A run writes the file when it ends, also after a failure. A run that was killed leaves none, and is at best unknown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from harness.common.documents import json_text, read_json
from harness.common.errors import UnreadableInput
from harness.results.membership_changes import MembershipChange
from harness.results.reasons import Reason
from harness.results.stage_progress import StageProgress
from harness.results.verdict import FaultReport, is_time

_REASON_FIELDS = ("evidence_problems", "unexpected_errors")
NEW_FIELDS = frozenset({"passed_over", "program_clients", "protocol_crc", "stage_progress"})
"""Fields that the runs of earlier versions do not have."""


@dataclass(frozen=True)
class RunPhase:
    """A part of a run, in seconds since the run began. Negative times are before the clock started."""

    name: str
    start_s: float
    end_s: float

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "RunPhase":
        """Read an entry of `phases`. Raises TypeError."""
        phase = cls(**body)
        if not isinstance(phase.name, str) or not all(map(is_time, (phase.start_s, phase.end_s))):
            raise TypeError(f"{body!r} is not the report of a phase")
        return phase


@dataclass(frozen=True)
class ProgramClient:
    """An instance of a custom pipeline, as the protocol proxy saw it in the requests of the instance."""

    transactional_ids: Sequence[str]
    without_generation: bool | None
    """Whether it sent offsets without the generation of its consumer. None: no request with offsets was seen."""


@dataclass(frozen=True)
class RunMetadata:
    """Facts about the evidence that only the run itself knows."""

    phases: Sequence[RunPhase] = ()
    faults: Sequence[FaultReport] = ()
    churn: Sequence[MembershipChange] = ()  # workers that joined and left
    # By fault: why the schedule has no entry for a fault that was permitted.
    unscheduled: Mapping[str, str] = field(default_factory=dict)
    # By goal: why the run did not reach it.
    unmet_goals: Mapping[str, str] = field(default_factory=dict)
    # Why the evidence is not complete, for instance because a stage was not drained.
    evidence_problems: Sequence[Reason] = ()
    interrupted: bool = False
    # Processes that ended by themselves, and errors that are not in the table of errors.
    unexpected_errors: Sequence[Reason] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    # By request (`EndTxn`): the versions that the workers sent. Empty if requests were not recorded.
    requests: Mapping[str, Sequence[int]] = field(default_factory=dict)
    # By journal of an instance (`bill-3.0`). Without a protocol proxy on its links, an instance is not in it.
    program_clients: Mapping[str, ProgramClient] = field(default_factory=dict)
    # By stage with [stage.progress]: what it printed last.
    stage_progress: Mapping[str, StageProgress] = field(default_factory=dict)
    # By group: partitions (`in/4`) that an input topic got during the run, and that the group did not read in time.
    passed_over: Mapping[str, Sequence[str]] = field(default_factory=dict)
    # By table: the rows that the run wrote. Empty if they were not counted.
    rows: Mapping[str, int] = field(default_factory=dict)
    history_crc: int | None = None  # CRC-32 of history.jsonl; None if the run promises no such file
    protocol_crc: int | None = None  # CRC-32 of protocol.jsonl; None if the run has no protocol proxy
    compacted: Mapping[str, bool] = field(default_factory=dict)  # by topic, as configured at the end
    # By topic: why the cluster did not give its log, and what the user can do.
    refused_logs: Mapping[str, str] = field(default_factory=dict)
    # How far the wall clock moved against the monotonic clock. None: not measured.
    clock_drift_ms: float | None = None
    # The wall clock time after which the pipeline wrote nothing more. None: sentinels mark it, or it is not known.
    rested_ms: float | None = None

    def save(self, path: Path) -> None:
        """Write the file atomically."""
        part = path.with_suffix(".part")
        reasons = {name: [reason.as_json() for reason in getattr(self, name)] for name in _REASON_FIELDS}
        body = asdict(self) | reasons | {"faults": [fault.as_json() for fault in self.faults]}
        part.write_text(json_text(body, indent=1) + "\n", encoding="utf-8")
        part.replace(path)

    @classmethod
    def load(cls, path: Path) -> "RunMetadata":
        """Read the file. Raises `UnreadableInput`, which names it."""
        try:
            body: dict[str, Any] = read_json(path)
            if missing := sorted({field.name for field in fields(cls)} - body.keys() - NEW_FIELDS):
                raise ValueError(f"{', '.join(missing)} is missing, and every run writes it")
            return cls(
                **body
                | {
                    "phases": [RunPhase.from_json(phase) for phase in body["phases"]],
                    "faults": [FaultReport.from_json(fault) for fault in body["faults"]],
                    "churn": [MembershipChange.from_json(change) for change in body["churn"]],
                    "rows": dict(body["rows"]),
                    "program_clients": {
                        name: ProgramClient(**client)
                        for name, client in body.get("program_clients", {}).items()
                    },
                    "stage_progress": {
                        name: StageProgress.from_json(progress)
                        for name, progress in body.get("stage_progress", {}).items()
                    },
                }
                | {name: _reasons(body[name]) for name in _REASON_FIELDS}
            )
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise UnreadableInput(f"{path} cannot be read: {error}") from error


def _reasons(stored: Any) -> list[Reason]:
    if not isinstance(stored, list):
        raise TypeError(f"reasons are a list, not {stored!r}")
    return [Reason.from_json(reason) for reason in stored]
