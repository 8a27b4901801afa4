"""A feeder sends each input to the partition of the input or of its partitioner. The brokers are a mock."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka import KafkaError

from harness.clients import librdkafka
from harness.clients.interface import ProducerSettings
from harness.common.errors import UsageError
from harness.model.expectation import Feed, FeedRecord
from harness.record.events import JournalBegan
from harness.record.journal import Journal
from harness.roles import feeder
from harness.roles.control import Control
from harness.roles.feeder import FeedBatch, Feeder

PARTITIONS = 4
"""The number of partitions of a topic of the mock."""
MURMUR2 = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
"""Keys and their hashes in the tests of Kafka's Java client (`UtilsTest.testMurmur2`)."""


class Counting(Control):
    """Stops the feeder when this many inputs were acknowledged."""

    expected = 0

    def await_go(self) -> None:
        pass

    def report(self, report: Any) -> None:
        self.stopping = (report.inputs_acked or 0) >= self.expected


@pytest.fixture(autouse=True)
def mock_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = librdkafka.idempotent_producer

    def with_brokers(*arguments: Any) -> dict[str, Any]:
        return settings(*arguments) | {"test.mock.num.brokers": 1}

    monkeypatch.setattr(librdkafka, "idempotent_producer", with_brokers)


def partitions_of(folder: Path, records: Sequence[FeedRecord], **more: Any) -> list[int]:
    """Feed the records and return their partitions."""
    control = Counting(None)
    control.expected = len(records)
    feed = Feed("in", lambda rng, n: records[n], count=len(records), **more)
    path = folder / f"feeder-{more.get('partitioner')}.jsonl"
    with Journal(path, 0, JournalBegan("feeder", role="feeder")) as journal:
        Feeder(ProducerSettings("127.0.0.1:1"), [feed], 10_000.0, 1, journal, control).run()
    events = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    return [ack[0] for event in events if event["type"] == "ok" for ack in event["acks"]]


def test_a_key_goes_where_the_java_client_puts_it(tmp_path: Path) -> None:
    records = [FeedRecord(key, b"v") for key in MURMUR2]
    java = [(number & 0x7FFFFFFF) % PARTITIONS for number in MURMUR2.values()]
    assert partitions_of(tmp_path, records, partitioner="murmur2_random") == java


def test_a_feed_without_a_partitioner_keeps_the_one_of_librdkafka(tmp_path: Path) -> None:
    records = [FeedRecord(key, b"v") for key in MURMUR2]
    kept = partitions_of(tmp_path, records)
    assert kept == partitions_of(tmp_path, records, partitioner="consistent_random")
    assert kept != partitions_of(tmp_path, records, partitioner="murmur2_random")


def test_a_partition_of_an_input_is_used_instead_of_the_partitioner(tmp_path: Path) -> None:
    records = [FeedRecord(b"abc", b"v", partition=number) for number in (3, 0, 2, 1)]
    assert partitions_of(tmp_path, records, partitioner="murmur2_random") == [3, 0, 2, 1]


@pytest.mark.parametrize("size", [1_500_000, 3_000_000])
def test_a_large_input_is_sent_to_the_brokers(size: int, tmp_path: Path) -> None:
    assert partitions_of(tmp_path, [FeedRecord(b"k", bytes(size), partition=2)]) == [2]


def test_an_input_that_no_broker_could_accept_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeder, "LARGEST_INPUT_BYTES", 2_000)
    with pytest.raises(
        UsageError, match=r"an input of 3,001 bytes is too large for in: the largest .* 2,000 bytes"
    ):
        partitions_of(tmp_path, [FeedRecord(b"k", bytes(3_000))])


class Refused:
    def topic(self) -> str:
        return "in"


@pytest.mark.parametrize(
    ("code", "record", "words"),
    [
        (
            KafkaError.MSG_SIZE_TOO_LARGE,
            FeedRecord(b"k", bytes(999), (("h", b""),)),
            "an input of 1,001 bytes, or its batch, is too large for in: raise the setting max.message.bytes of this",
        ),
        (
            KafkaError.INVALID_TIMESTAMP,
            FeedRecord(b"k", b"v", timestamp_ms=9 * 10**12),
            "the brokers refuse an input with timestamp_ms 9000000000000 in in: give a time stamp that is not more",
        ),
        (
            KafkaError.INVALID_RECORD,
            FeedRecord(None, b"v"),
            "the brokers refuse an input of in: give it a key",
        ),
        (KafkaError.INVALID_TIMESTAMP, FeedRecord(b"k", b"v"), None),  # the clock of a broker is wrong
        (KafkaError._MSG_TIMED_OUT, FeedRecord(b"k", b"v"), None),
    ],
)
def test_an_input_that_its_topic_refuses_ends_the_run_with_a_sentence(
    code: int, record: FeedRecord, words: str | None, tmp_path: Path
) -> None:
    control = Counting(None)
    with Journal(tmp_path / "feeder.jsonl", 0, JournalBegan("feeder", role="feeder")) as journal:
        role = Feeder(
            ProducerSettings("127.0.0.1:1"), [Feed("in", lambda rng, n: record)], 0.0, 1, journal, control
        )
        refused: Any = Refused()
        role._on_delivery(FeedBatch(0, [None]), 0, record, KafkaError(code), refused)
        if words is None:
            role.run()
        else:
            with pytest.raises(UsageError) as error:
                role.run()
            assert str(error.value).startswith(words)
