"""What a run knows of its own evidence, beside the tables: `metadata.json` in its folder.

Written at the end of a run, however it ended; a run that was killed leaves none, and is then at
best unknown.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from harness.common.errors import UnreadableInput
from harness.results.membership_changes import MembershipChange
from harness.results.reasons import Reason
from harness.results.verdict import FaultReport

_REASONS = ("evidence_problems", "unexpected_errors")
"""Fields that hold reasons."""


@dataclass(frozen=True)
class RunPhase:
    """A part of a run, in seconds since it began (negative: before the clock started)."""

    name: str
    start_s: float
    end_s: float


@dataclass(frozen=True)
class RunMetadata:
    """What only the run itself can tell."""

    phases: Sequence[RunPhase] = ()
    faults: Sequence[FaultReport] = ()
    churn: Sequence[MembershipChange] = ()  # of workers that joined and left
    unscheduled: Mapping[str, str] = field(
        default_factory=dict
    )  # permitted, but the schedule had no room: why
    unmet_goals: Mapping[str, str] = field(
        default_factory=dict
    )  # goals of the run that were not reached: why
    evidence_problems: Sequence[
        Reason
    ] = ()  # why the evidence is not complete (not drained, a leftover, ...)
    interrupted: bool = False
    unexpected_errors: Sequence[Reason] = ()  # processes that ended by themselves, errors that nobody foresaw
    versions: Mapping[str, str] = field(default_factory=dict)
    requests: Mapping[str, Sequence[int]] = field(
        default_factory=dict
    )  # by request (`EndTxn`), the versions that the workers spoke; {}: not recorded
    rows: Mapping[str, int] = field(default_factory=dict)  # by table, as written; {}: nobody counted
    history_crc: int | None = None  # CRC-32 of the clients' own history, where the run promises one
    compacted: Mapping[str, bool] = field(default_factory=dict)  # by topic, as it was configured at the end
    refused_logs: Mapping[str, str] = field(
        default_factory=dict
    )  # by topic, why the cluster did not give its log, and what would help
    clock_drift_ms: float | None = (
        None  # how far the wall clock moved from the monotonic one; None: not measured
    )
    rested_ms: float | None = (
        None  # the wall clock when nothing moved any more, of a run whose ends no sentinel marks
    )

    def save(self, path: Path) -> None:
        """Write it whole or not at all."""
        part = path.with_suffix(".part")
        told = {name: [reason.as_json() for reason in getattr(self, name)] for name in _REASONS}
        body = asdict(self) | told
        part.write_text(json.dumps(body, indent=1, ensure_ascii=False) + "\n")
        part.replace(path)

    @classmethod
    def load(cls, path: Path) -> "RunMetadata":
        """Read it back; raises `UnreadableInput`, which names the file."""
        try:
            body: dict[str, Any] = json.loads(path.read_text())
            if lacking := sorted({one.name for one in fields(cls)} - body.keys()):
                raise ValueError(f"the run wrote {', '.join(lacking)} there, and it is gone")
            return cls(
                **body
                | {
                    "phases": [RunPhase(**phase) for phase in body["phases"]],
                    "faults": [FaultReport.from_json(fault) for fault in body["faults"]],
                    "churn": [MembershipChange.from_json(one) for one in body["churn"]],
                    "rows": dict(body["rows"]),
                }
                | {name: _reasons(body[name]) for name in _REASONS}
            )
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise UnreadableInput(f"{path} cannot be read: {error}") from error


def _reasons(stored: Any) -> list[Reason]:
    """Reasons as they are stored; raises TypeError where it is no list of them."""
    if not isinstance(stored, list):
        raise TypeError(f"reasons are a list, not {stored!r}")
    return [Reason.from_json(one) for one in stored]
