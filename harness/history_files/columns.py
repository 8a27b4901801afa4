"""Collect the columns of EVENTS in flat lists of numbers, which Arrow converts quickly."""

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from harness.history_files.schema import EVENTS, RECORD


class EventMark(NamedTuple):
    """The number of sends and polls before an event."""

    sends: int
    polls: int


class EventRows:
    """Rows of EVENTS. Append the sends and polls of an event first, then its row, which includes them."""

    def __init__(self) -> None:
        self.send_keys: list[int] = []
        self.send_values: list[int] = []
        self.send_offsets: list[int | None] = []
        self.poll_keys: list[int] = []
        self.poll_values: list[int] = []
        self.poll_offsets: list[int | None] = []
        self._rows: list[tuple[object, ...]] = []
        self._without_sends: list[bool] = []

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
        without_sends: bool = False,
    ) -> None:
        """Append an event, with the sends and polls that were appended since the last row.

        `without_sends`: the event does not contain the sends, so the column is null.
        """
        sends, polls = len(self.send_keys), len(self.poll_keys)
        self._without_sends.append(without_sends or error is not None)
        self._rows.append(
            (line, index, time_ns, process, kind, f, sends, polls, keys, rebalanced, isolation, names, error)
        )

    def error(self, line: int, error: str) -> None:
        """Append a line that cannot be read."""
        self.row(line, None, None, None, None, None, None, None, None, None, error)

    def mark(self) -> EventMark:
        """Return a mark for `back_to`."""
        return EventMark(len(self.send_keys), len(self.poll_keys))

    def back_to(self, mark: EventMark) -> None:
        """Remove the sends and polls that were appended since the mark."""
        del self.send_keys[mark.sends :], self.send_values[mark.sends :], self.send_offsets[mark.sends :]
        del self.poll_keys[mark.polls :], self.poll_values[mark.polls :], self.poll_offsets[mark.polls :]

    def batch(self) -> pa.RecordBatch:
        """Return all rows as a batch of EVENTS."""
        if not self._rows:
            return pa.RecordBatch.from_pylist([], schema=EVENTS)
        columns = dict(zip(EVENTS.names, zip(*self._rows, strict=True), strict=True))
        null = {"sends": self._without_sends, "polls": [error is not None for error in columns["error"]]}
        arrays = [
            pa.array(columns[field.name], field.type)
            if field.name not in {"sends", "polls"}
            else self._records(field.name, columns[field.name], null[field.name])
            for field in EVENTS
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=EVENTS)

    def _records(self, name: str, ends: tuple[object, ...], null: Sequence[bool]) -> pa.Array:
        """Return the column `sends` or `polls`. For each row, `ends` has the index after its last record."""
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
