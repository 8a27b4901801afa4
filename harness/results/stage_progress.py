"""The last answer of a stage's `[stage.progress]`: which of its inputs are processed. It is in metadata.json."""

from msgspec import Struct

from harness.results import Count

FORM = "lines TOPIC PARTITION OFFSET (the next offset to read), or one number of processed inputs"


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
