"""Trace Event JSON, written event by event, so that its size does not count in memory.

The format is the Trace Event Format of Chromium, as Perfetto reads it. All times are microseconds since the run began.
Slices have whole microseconds, so that no rounding moves the end of a slice over the end of its parent.
"""

from collections.abc import Mapping
from typing import IO, Any

import orjson


class TraceFile:
    """Writes events to a stream. `finish` must be called at the end."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.events = 0
        # Without displayTimeUnit: Perfetto reports this key as a problem of the trace.
        stream.write(b'{"traceEvents":[')

    def write(self, event: Mapping[str, Any]) -> None:
        """Append one event. Keys whose value is None are left out."""
        self._stream.write(b",\n" if self.events else b"\n")
        self._stream.write(orjson.dumps({key: value for key, value in event.items() if value is not None}))
        self.events += 1

    def finish(self, about: Mapping[str, Any]) -> None:
        """End the list of events and add facts about the trace."""
        self._stream.write(b'\n],"otherData":' + orjson.dumps(about) + b"}\n")
