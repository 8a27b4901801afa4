"""The last answer of a stage's `[stage.progress]`: which of its inputs are processed. It is in metadata.json."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

FORM = "lines TOPIC PARTITION OFFSET (the next offset to read), or one number of processed inputs"


@dataclass(frozen=True)
class StageProgress:
    """The progress of a stage without a consumer group, as its own command or query printed it."""

    positions: Sequence[tuple[str, int, int]] = ()  # topic, partition, the next offset to read
    processed: int | None = None  # the number of processed inputs; None: it printed positions
    left: int | None = None  # how many inputs were left at that time; None: not known
    not_known: str = ""  # why the last call printed nothing usable; it names the command and its last output

    @property
    def by_partition(self) -> dict[tuple[str, int], int]:
        """The next offset to read, by partition. A partition that is not in it is not begun."""
        return {(topic, partition): offset for topic, partition, offset in self.positions}

    @property
    def total(self) -> int:
        """A number that grows while the stage makes progress."""
        return sum(offset for _, _, offset in self.positions) + (self.processed or 0)

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "StageProgress":
        """Read what `dataclasses.asdict` returned. Raises TypeError, ValueError."""
        rows = tuple((topic, partition, offset) for topic, partition, offset in body.get("positions", ()))
        read = cls(**{**body, "positions": rows})
        numbers = [
            read.processed,
            read.left,
            *(number for _, partition, offset in rows for number in (partition, offset)),
        ]
        if not all(number is None or (type(number) is int and number >= 0) for number in numbers):
            raise ValueError(f"the progress of a stage has numbers from 0, not {dict(body)}")
        return read
