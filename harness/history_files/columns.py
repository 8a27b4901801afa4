"""The columns of EVENTS while they are filled: flat lists of numbers, which Arrow takes over at once."""

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from harness.history_files.schema import EVENTS, RECORD


class EventMark(NamedTuple):
    """How many sends and polls there were before an event."""

    sends: int
    polls: int


class EventRows:
    """Rows of EVENTS. The sends and polls of an event are appended first, then its row, which takes them."""

    def __init__(self) -> None:
        self.send_keys: list[int] = []
        self.send_values: list[int] = []
        self.send_offsets: list[int | None] = []
        self.poll_keys: list[int] = []
        self.poll_values: list[int] = []
        self.poll_offsets: list[int | None] = []
        self._rows: list[tuple[object, ...]] = []
        self._silent: list[bool] = []

    def row(
        self,
        line: int,
        index: int | None,
        time_ns: int | None,
        process: int | None,
        kind: str | None,
        f: str | None,
        keys: list[int] | None,
        rebalanced: list[int] | None,
        isolation: str | None,
        names: list[tuple[int, str]] | None,
        error: str | None = None,
        *,
        silent: bool = False,
    ) -> None:
        """An event, with the sends and polls appended since the row before. `silent`: it does not say what was
        sent, so that its sends are null.
        """
        sends, polls = len(self.send_keys), len(self.poll_keys)
        self._silent.append(silent or error is not None)
        self._rows.append(
            (line, index, time_ns, process, kind, f, sends, polls, keys, rebalanced, isolation, names, error)
        )

    def error(self, line: int, error: str) -> None:
        """A line that cannot be read."""
        self.row(line, None, None, None, None, None, None, None, None, None, error)

    def mark(self) -> EventMark:
        """The place to come back to."""
        return EventMark(len(self.send_keys), len(self.poll_keys))

    def back_to(self, mark: EventMark) -> None:
        """Forget the sends and polls since then."""
        del self.send_keys[mark.sends :], self.send_values[mark.sends :], self.send_offsets[mark.sends :]
        del self.poll_keys[mark.polls :], self.poll_values[mark.polls :], self.poll_offsets[mark.polls :]

    def batch(self) -> pa.RecordBatch:
        """All rows as a batch of EVENTS."""
        if not self._rows:
            return pa.RecordBatch.from_pylist([], schema=EVENTS)
        columns = dict(zip(EVENTS.names, zip(*self._rows, strict=True), strict=True))
        null = {"sends": self._silent, "polls": [error is not None for error in columns["error"]]}
        arrays = [
            pa.array(columns[field.name], field.type)
            if field.name not in {"sends", "polls"}
            else self._records(field.name, columns[field.name], null[field.name])
            for field in EVENTS
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=EVENTS)

    def _records(self, name: str, ends: tuple[object, ...], null: Sequence[bool]) -> pa.Array:
        """The column `sends` or `polls`, from where each row's part ends."""
        parts = (
            (self.send_keys, self.send_values, self.send_offsets)
            if name == "sends"
            else (self.poll_keys, self.poll_values, self.poll_offsets)
        )
        records = pa.StructArray.from_arrays(
            [pa.array(part, pa.int64()) for part in parts], fields=list(RECORD)
        )
        return pa.ListArray.from_arrays(
            pa.array([0, *ends], pa.int32()), records, mask=pa.array(null, pa.bool_())
        )
