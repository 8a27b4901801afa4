"""Measure the cost of final reads and tables per record: `python -m benchmarks.final_reads [RECORDS]`.

The records are those of the workload `shop`. A consumer that has them in memory passes them to the final readers;
then their parts become tables. All results are ratios to a bare loop in the same process, which reads position, key,
value and headers of each record.
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
from harness.record.naming import Headers, PartitionIds, output_headers, value_name
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
    """A message of the client library."""

    _topic: str
    _partition: int
    _offset: int
    _key: bytes
    _value: bytes
    _headers: Headers

    def error(self) -> None:
        return

    def topic(self) -> str:
        return self._topic

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def key(self) -> bytes:
        return self._key

    def value(self) -> bytes:
        return self._value

    def headers(self) -> Headers:
        """Return a new list each time, like the library."""
        return list(self._headers)

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_700_000_000_000 + self._offset


class Consumer:
    """Returns all messages, one batch at a time."""

    def __init__(self, messages: list[Message]) -> None:
        self._batches = iter([messages[n : n + BATCH] for n in range(0, len(messages), BATCH)])

    def assign(self, topic_partitions: object) -> None:
        pass

    def consume(self, max_messages: int, timeout: float) -> list[Message]:
        return next(self._batches)

    def offsets_for_times(self, times: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        return [TopicPartition(entry.topic, entry.partition, 0) for entry in times]


def logs(records: int) -> list[Message]:
    """Return the records in the topics of `shop`, with a sentinel at the end of each partition."""
    messages = list(_logs(records // len(TOPICS)))
    ends = {(m.topic(), m.partition()): m.offset() + 1 for m in messages}
    for topic in TOPICS:
        for partition in range(PARTITIONS):
            name = f"{SENTINEL_VALUE}:{topic}/{partition}".encode()
            end = ends.get((topic, partition), 0)
            messages.append(Message(topic, partition, end, b"", b"", [(VALUE_HEADER, name)]))
    return messages


def _logs(inputs: int) -> Iterator[Message]:
    rng = Random(0)
    shop, payments = SHOP.stages
    for n in range(inputs):
        feed_record, partition, offset = SHOP.feed[0].make(rng, n), n % PARTITIONS, n // PARTITIONS
        value = [(VALUE_HEADER, value_name("feeder", n // 500, n % 500).encode())]
        yield Message(
            "purchases", partition, offset, feed_record.key or b"", feed_record.value or b"", list(value)
        )
        invoice, shipment = shop.transform(
            InputRecord("purchases", feed_record.key, feed_record.value, partition, offset)
        )
        (payment,) = payments.transform(
            InputRecord("invoices", invoice.key, invoice.value, partition, offset)
        )
        for source, out in (("purchases", invoice), ("purchases", shipment), ("invoices", payment)):
            name = value_name("shop-1.0", n // 100, n % 100)
            headers = output_headers(name, out.output_name, [(source, partition, offset)])
            yield Message(out.topic, partition, offset, out.key or b"", out.value or b"", headers)


def bare(messages: list[Message]) -> None:
    """Read all parts of each message."""
    for message in messages:
        message.topic(), message.partition(), message.offset()
        message.key(), message.value(), message.headers(), message.timestamp()


def read(messages: list[Message], isolation: Isolation, journals: Path) -> None:
    """Read the messages like a final reader."""
    topic_partitions = [(topic, partition) for topic in TOPICS for partition in range(PARTITIONS)]
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
            "none:1",
            topic_partitions,
            partitions,
            isolation,
            journal,
            parts,
            Control(None),
            SHOP.expectation(),
            stated,
        ).run()


def main() -> None:
    messages = logs(int(sys.argv[1]) if len(sys.argv) > 1 else RECORDS)
    gc.freeze()  # so that the garbage collector does not scan the messages, which the library would own
    with tempfile.TemporaryDirectory() as name:
        journals = Path(name) / "journals"
        journals.mkdir()
        start_s = time.process_time()
        bare(messages)
        bare_s = time.process_time() - start_s
        print(f"{len(messages):,} records; a bare loop: {1e6 * bare_s / len(messages):.2f} µs each")
        for isolation in Isolation:
            start_s = time.process_time()
            read(messages, isolation, journals)
            _print_cost(
                f"final reader, {isolation.value}", time.process_time() - start_s, bare_s, len(messages)
            )
        size = sum(path.stat().st_size for path in journals.rglob("*") if path.is_file())
        print(f"  files: {size / len(messages):.0f} bytes a record")
        start_s = time.process_time()
        sizes = mock.Mock(workers=1, partitions=PARTITIONS, brokers=1, abort_share=0.0)
        partitions = PartitionIds(dict.fromkeys(TOPICS, PARTITIONS))
        tables = Tabulator(1, SHOP.spec(sizes).stages, partitions)
        tables.write(sorted(journals.glob("*.jsonl")), Path(name) / "history")
        _print_cost("tables", time.process_time() - start_s, bare_s, len(messages))


def _print_cost(name: str, cost_s: float, bare_s: float, records: int) -> None:
    print(f"  {name}: {cost_s / bare_s:.1f} bare loops, {1e6 * cost_s / records:.2f} µs of CPU a record")


if __name__ == "__main__":
    main()
