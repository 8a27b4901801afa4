"""What final reads and tables cost for each record: `python -m benchmarks.final_reads [RECORDS]`. Asserts nothing.

A run of the workload `shop` as it stands in the topics, given to the final readers by a consumer that has it in
memory; then their parts become tables. All are ratios to a bare loop in the same process, which asks each record for
its place, its key, its value and its headers, and does nothing with them.
"""

import gc
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from unittest import mock

from confluent_kafka import TopicPartition

from harness.model.expectation import InputRecord
from harness.model.vocabulary import SENTINEL_VALUE, VALUE_HEADER, Isolation, Role
from harness.record.events import JournalBegan
from harness.record.journal import Journal
from harness.record.naming import Headers, output_headers, value_name
from harness.record.partitions import PartitionIds
from harness.record.parts import PartWriter, parts_folder
from harness.record.tables import Tabulator
from harness.roles import final_reader
from harness.roles.control import Control
from harness.roles.final_reader import BATCH, FinalReader
from workloads.shop import SHOP

PARTITIONS = 4
RECORDS = 200_000
TOPICS = ("purchases", "invoices", "shipments", "payments")


@dataclass(frozen=True, slots=True)
class Message:
    """As the client library has it."""

    _topic: str
    _partition: int
    _offset: int
    _key: bytes
    _value: bytes
    _headers: Headers

    def error(self) -> None:
        """There is none."""
        return

    def topic(self) -> str:
        """Its topic."""
        return self._topic

    def partition(self) -> int:
        """Its partition."""
        return self._partition

    def offset(self) -> int:
        """Its offset."""
        return self._offset

    def key(self) -> bytes:
        """Its key."""
        return self._key

    def value(self) -> bytes:
        """What it holds."""
        return self._value

    def headers(self) -> Headers:
        """A new list each time, as the library makes it."""
        return list(self._headers)

    def timestamp(self) -> tuple[int, int]:
        """Kind and milliseconds."""
        return 1, 1_700_000_000_000 + self._offset


class Consumer:
    """Gives all messages, a batch at a time."""

    def __init__(self, messages: list[Message]) -> None:
        self._batches = iter([messages[n : n + BATCH] for n in range(0, len(messages), BATCH)])

    def assign(self, places: object) -> None:
        """It gives what it has."""

    def consume(self, most: int, timeout: float) -> list[Message]:
        """The next batch."""
        return next(self._batches)

    def offsets_for_times(self, places: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        """Each log begins at 0."""
        return [TopicPartition(place.topic, place.partition, 0) for place in places]


def logs(records: int) -> list[Message]:
    """What stands in the topics of `shop`, with a sentinel at the end of each partition."""
    found = list(_logs(records // len(TOPICS)))
    ends = {(m.topic(), m.partition()): m.offset() + 1 for m in found}
    for topic in TOPICS:
        for partition in range(PARTITIONS):
            name = f"{SENTINEL_VALUE}:{topic}/{partition}".encode()
            end = ends.get((topic, partition), 0)
            found.append(Message(topic, partition, end, b"", b"", [(VALUE_HEADER, name)]))
    return found


def _logs(inputs: int) -> Iterator[Message]:
    rng = Random(0)
    shop, payments = SHOP.stages
    for n in range(inputs):
        fed, partition, offset = SHOP.feed[0].make(rng, n), n % PARTITIONS, n // PARTITIONS
        value = [(VALUE_HEADER, value_name("feeder", n // 500, n % 500).encode())]
        yield Message("purchases", partition, offset, fed.key or b"", fed.value or b"", list(value))
        invoice, shipment = shop.transform(InputRecord("purchases", fed.key, fed.value, partition, offset))
        (payment,) = payments.transform(
            InputRecord("invoices", invoice.key, invoice.value, partition, offset)
        )
        for source, out in (("purchases", invoice), ("purchases", shipment), ("invoices", payment)):
            name = value_name("shop-1.0", n // 100, n % 100)
            headers = output_headers(name, out.output_name, [(source, partition, offset)])
            yield Message(out.topic, partition, offset, out.key or b"", out.value or b"", headers)


def bare(messages: list[Message]) -> None:
    """Ask each for everything."""
    for message in messages:
        message.topic(), message.partition(), message.offset()
        message.key(), message.value(), message.headers(), message.timestamp()


def read(messages: list[Message], isolation: Isolation, journals: Path) -> None:
    """Read them as a final reader does."""
    places = [(topic, partition) for topic in TOPICS for partition in range(PARTITIONS)]
    path = journals / f"final-{isolation.value}.jsonl"
    with (
        mock.patch.object(final_reader, "Consumer", lambda _: Consumer(messages)),
        Journal(path, 0, JournalBegan(path.stem, role=Role.FINAL.value)) as journal,
    ):
        parts, partitions = (
            PartWriter(journal, parts_folder(path)),
            PartitionIds(dict.fromkeys(TOPICS, PARTITIONS)),
        )
        stated = {topic for stage in SHOP.stages for topic in stage.reads}
        FinalReader(
            "none:1", places, partitions, isolation, journal, parts, Control(None), SHOP.expectation(), stated
        ).run()


def main() -> None:
    """Print what each step costs."""
    messages = logs(int(sys.argv[1]) if len(sys.argv) > 1 else RECORDS)
    gc.freeze()  # a reader's own memory is small: the messages stand for what the library holds
    with tempfile.TemporaryDirectory() as name:
        journals = Path(name) / "journals"
        journals.mkdir()
        begun = time.process_time()
        bare(messages)
        unit = time.process_time() - begun
        print(f"{len(messages):,} records; a bare loop: {1e6 * unit / len(messages):.2f} µs each")
        for isolation in Isolation:
            begun = time.process_time()
            read(messages, isolation, journals)
            _tell(f"final reader, {isolation.value}", time.process_time() - begun, unit, len(messages))
        size = sum(path.stat().st_size for path in journals.rglob("*") if path.is_file())
        print(f"  they left {size / len(messages):.0f} bytes a record")
        begun = time.process_time()
        sizes = mock.Mock(workers=1, partitions=PARTITIONS, brokers=1, abort_share=0.0)
        partitions = PartitionIds(dict.fromkeys(TOPICS, PARTITIONS))
        tables = Tabulator(1, SHOP.facts(sizes).stages, partitions)
        tables.write(sorted(journals.glob("*.jsonl")), Path(name) / "history")
        _tell("their tables", time.process_time() - begun, unit, len(messages))


def _tell(what: str, cost_s: float, unit_s: float, records: int) -> None:
    print(f"  {what}: {cost_s / unit_s:.1f} bare loops, {1e6 * cost_s / records:.2f} µs of CPU a record")


if __name__ == "__main__":
    main()
