"""The reader of a bench: a read-committed consumer that records when it received each output.

The value of an input begins with a stamp: the number of its measurement, and the time of its creation on the monotonic
clock, which all processes of a machine share. The pipeline copies the value, so each output has the stamp of its input.
"""

import struct
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from confluent_kafka import OFFSET_END, Consumer, TopicPartition

from harness.clients import librdkafka
from harness.clients.interface import consume
from harness.model.vocabulary import Isolation
from harness.processes.messages import Report
from harness.roles.control import Control

BATCH = 2_000
_ENTRY = struct.Struct("<qqq")
"""Number of the measurement; times of creation and receipt, in ns of the monotonic clock."""


def stamped_value(measurement: int, filler: bytes) -> bytes:
    """The value of an input that is created now: its stamp and the filler."""
    return b"%d %d " % (measurement, time.monotonic_ns()) + filler


def read_stamp(value: bytes | None) -> tuple[int, int]:
    """The number of the measurement and the time of creation in ns. (0, 0) if the value has no stamp."""
    words = (value or b"").split(b" ", 2)
    if len(words) < 3 or not (words[0].isdigit() and words[1].isdigit()):
        return 0, 0
    return int(words[0]), int(words[1])


class OutputReader:
    """Reads new records of a topic with read_committed, and writes their stamps and times of receipt to a file."""

    def __init__(
        self, bootstrap: str, topic_partitions: Sequence[tuple[str, int]], path: Path, control: Control
    ) -> None:
        self._control = control
        self._path = path
        self._consumer = Consumer(
            librdkafka.reader(bootstrap, "bench-reader", Isolation.READ_COMMITTED)
            | {"fetch.wait.max.ms": 500}
        )
        self._consumer.assign(
            [TopicPartition(*topic_partition, OFFSET_END) for topic_partition in topic_partitions]
        )

    def run(self) -> None:
        """Read until the bench sends the command to stop. Report the number of records."""
        self._control.report(Report(ready=True))
        count = 0
        with self._path.open("wb", buffering=0) as file:
            while not self._control.stopping:
                self._control.listen()
                count += self._take(file)
                self._control.report(Report(records_read=count))
        self._consumer.close()

    def _take(self, file: BinaryIO) -> int:
        first = consume(self._consumer, 1, 0.1)
        if not first:
            return 0
        batch = first + consume(self._consumer, BATCH, 0.0)
        now_ns = time.monotonic_ns()
        file.write(b"".join(_ENTRY.pack(*read_stamp(record.value()), now_ns) for record in batch))
        return len(batch)


def read_latencies(path: Path, measurement: int) -> Iterator[tuple[int, int]]:
    """Yield creation and receipt times in ns of the outputs of a measurement. Skips an incomplete last entry."""
    body = path.read_bytes()
    for number, created_ns, received_ns in _ENTRY.iter_unpack(body[: len(body) - len(body) % _ENTRY.size]):
        if number == measurement:
            yield created_ns, received_ns
