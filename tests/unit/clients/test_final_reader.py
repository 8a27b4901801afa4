"""A final reader writes the records as columns, and records the first and last offset of each partition."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, TopicPartition

from harness.model.expectation import CorrelationKey, Expectation, ExpectedOutput, ExpectedSum, InputRecord
from harness.model.pipeline import StageSpec
from harness.model.vocabulary import (
    OUTPUT_NAME_HEADER,
    SENTINEL_VALUE,
    SOURCE_HEADER,
    VALUE_HEADER,
    Isolation,
)
from harness.record.events import JournalBegan
from harness.record.journal import Journal
from harness.record.naming import Headers, PartitionIds, digest, unplanned
from harness.record.parts import PartWriter, parts_folder
from harness.record.tables import Tabulator
from harness.roles import final_reader
from harness.roles.control import Control
from harness.roles.final_reader import FinalReader, ProgramTopics
from tests.support.user_pipeline import read_pipeline
from workloads.custom.pipeline import CustomPipeline

TOPIC_PARTITIONS = (("x", 0), ("y", 0), ("z", 0))
PLANNED = {"other": 3, "x": 1, "y": 1, "z": 1}


@dataclass
class Message:
    topic_partition: tuple[str, int]
    log_offset: int
    name: str = ""
    output_name: str | None = None
    sources: str | None = None

    def error(self) -> KafkaError | None:
        return None

    def topic(self) -> str:
        return self.topic_partition[0]

    def partition(self) -> int:
        return self.topic_partition[1]

    def offset(self) -> int:
        return self.log_offset

    def key(self) -> bytes:
        return b"k"

    def value(self) -> bytes:
        return b"v"

    def timestamp(self) -> tuple[int, int]:
        return 1, 99

    def headers(self) -> Headers:
        headers = {VALUE_HEADER: self.name, OUTPUT_NAME_HEADER: self.output_name, SOURCE_HEADER: self.sources}
        return [(name, text.encode()) for name, text in headers.items() if text is not None]


class End(Message):
    """The end of a partition is reached for now."""

    def error(self) -> KafkaError:
        return KafkaError(KafkaError._PARTITION_EOF)


Batch = Sequence[Message]


class Cluster:
    """Delivers the batches, then stops the reader. The log of x begins at 3, y has no leader, z does not exist."""

    def __init__(self, control: Control, batches: Sequence[Batch]) -> None:
        self._control = control
        self._batches = list(batches)
        self.reports_ends = False

    def assign(self, partitions: Sequence[TopicPartition]) -> None:
        assert [(partition.topic, partition.partition) for partition in partitions] == list(TOPIC_PARTITIONS)
        assert {partition.topic: partition.offset for partition in partitions} == {
            "x": 3,
            "y": OFFSET_BEGINNING,
            "z": OFFSET_BEGINNING,
        }

    def consume(self, most: int, timeout: float) -> Batch:
        if self._batches:
            return self._batches.pop(0)
        self._control.stopping = True
        return []

    def offsets_for_times(self, partitions: Sequence[TopicPartition], timeout: float) -> list[TopicPartition]:
        assert 0 < timeout <= final_reader.LAST_LOOKUP_TIMEOUT_S
        assert {topic_partition.offset for topic_partition in partitions} == {OFFSET_BEGINNING}
        if "y" in {topic_partition.topic for topic_partition in partitions}:
            raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
        return [
            TopicPartition(
                topic_partition.topic, topic_partition.partition, 3 if topic_partition.topic == "x" else -2
            )
            for topic_partition in partitions
        ]


class FakeExpectation:
    """Each record of x leads to one output, adds 2 to a sum and has the state 5. No other topic is allowed."""

    def expected_outputs(self, record: InputRecord) -> list[ExpectedOutput]:
        assert record.topic == "x"
        return [ExpectedOutput("s", "output_name", "out", lambda partition, offset: 100 + offset)]

    def expected_sums(self, record: InputRecord) -> list[ExpectedSum]:
        return [ExpectedSum("s", "sums", b"sum", 2)]

    def correlation_key(self, record: InputRecord) -> None:
        pass

    def held_sum(self, record: InputRecord) -> int:
        return 5


SENTINEL = Message(("x", 0), 7, f"{SENTINEL_VALUE}:x/0")


def read(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    isolation: Isolation,
    *batches: Batch,
    custom: ProgramTopics | None = None,
    expect: Expectation | None = None,
) -> tuple[list[dict[str, Any]], dict[str, list[dict[str, Any]]]]:
    """Return the events of the reader's journal, and the rows that it has written, by table."""
    control = Control(None)
    cluster = Cluster(control, batches)

    def consumer(settings: dict[str, Any]) -> Cluster:
        cluster.reports_ends = settings["enable.partition.eof"]
        return cluster

    monkeypatch.setattr(final_reader, "Consumer", consumer)
    path = tmp_path / "final.jsonl"
    with Journal(path, 0, JournalBegan("final", role="final")) as journal:
        parts = PartWriter(journal, parts_folder(path))
        arguments = (
            "nowhere:9092",
            TOPIC_PARTITIONS,
            PartitionIds(PLANNED),
            isolation,
            journal,
            parts,
            control,
            expect or FakeExpectation(),
            {"x"},
            custom,
        )
        FinalReader(*arguments).run()
    assert cluster.reports_ends is bool(custom and custom.end_offsets)
    tables = Tabulator(1, (StageSpec("s", ("x",), "g"),), PartitionIds(PLANNED))
    tables.write([path], tmp_path / "history")
    rows = {file.stem: pq.read_table(file).to_pylist() for file in (tmp_path / "history").iterdir()}
    return [orjson.loads(line) for line in path.read_bytes().splitlines()], rows


def test_ends_are_recorded_although_a_partition_has_no_leader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = [Message(("x", 0), 5, "w:0:0"), SENTINEL]
    events, rows = read(tmp_path, monkeypatch, Isolation.READ_COMMITTED, batch)
    (ends,) = (event["ends"] for event in events if event["type"] == "ends")
    assert ends == {"x/0": {"first": 3, "next": 8, "read": 2, "sentinel": 7, "expected": None}}
    assert [(row["n"], row["offset"], row["value"]) for row in rows["polls"]] == [
        (0, 5, "w:0:0"),
        (1, 7, f"{SENTINEL_VALUE}:x/0"),
    ]
    (op,) = rows["ops"]
    assert {(row["op"], row["return_ns"]) for row in rows["polls"]} == {(op["op"], op["return_ns"])}
    assert not rows["records"]


def test_each_poll_is_one_operation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = [[Message(("x", 0), 5, "a"), Message(("z", 0), 1, "b")], [Message(("x", 0), 6, "c")]]
    _, rows = read(tmp_path, monkeypatch, Isolation.READ_COMMITTED, *batches)
    assert [(row["op"], row["n"], row["value"]) for row in rows["polls"]] == [
        (0, 0, "a"),
        (0, 1, "b"),
        (1, 0, "c"),
    ]
    assert [(row["op"], row["f"], row["outcome"]) for row in rows["ops"]] == [
        (0, "poll", "ok"),
        (1, "poll", "ok"),
    ]


def test_the_read_uncommitted_reader_writes_contents_and_expected_outputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = [
        Message(("x", 0), 5, "w:0:0", "invoice", "other/2/3,x/0/4,nowhere/0/5"),
        Message(("z", 0), 6, "w:0:1", sources="other/2/99999999999999999999,²/²/²"),
        SENTINEL,
    ]
    events, rows = read(tmp_path, monkeypatch, Isolation.READ_UNCOMMITTED, batch)
    (ends,) = (event["ends"] for event in events if event["type"] == "ends")
    assert ends["x/0"]["expected"] == len(rows["expected"]) == 2
    x, z, end = rows["records"]
    assert (x["value"], x["output_name"], x["key"], x["timestamp_ms"], x["state"]) == (
        "w:0:0",
        "invoice",
        "k",
        99,
        5,
    )
    assert x["digest"] == digest(b"k", b"v", batch[0].headers())
    assert (x["tp"], z["tp"]) == (3, 5)
    assert [(pair["tp"], pair["offset"]) for pair in x["inputs"]] == [
        (2, 3),
        (3, 4),
        (unplanned("nowhere", 0), 5),
    ]
    assert (z["inputs"], z["state"]) == ([], None)  # inputs that cannot be parsed are left out
    assert [row["sentinel"] for row in rows["records"]] == [False, False, True]
    assert (end["state"], rows["polls"]) == (None, [])
    output, added = rows["expected"]
    assert (output["offset"], output["output_name"], output["topic"], output["digest"], output["group"]) == (
        5,
        "output_name",
        "out",
        105,
        "g",
    )
    assert (added["topic"], added["key"], added["adds"], added["output_name"]) == ("sums", "sum", 2, None)


class CorrelatedExpectation(FakeExpectation):
    """The correlation key of an expected output and of a record is its value."""

    def expected_outputs(self, record: InputRecord) -> list[ExpectedOutput]:
        return [
            ExpectedOutput("s", "z", "z", lambda partition, offset: 77, correlation_key=str(record.value))
        ]

    def expected_sums(self, record: InputRecord) -> list[ExpectedSum]:
        return []

    def correlation_key(self, record: InputRecord) -> CorrelationKey | None:
        return CorrelationKey(str(record.value), 77) if record.offset < 6 else None


USERS = ProgramTopics(frozenset({"z"}))
FORWARDED = [
    Message(("x", 0), 5, "feeder:0:0"),
    Message(("z", 0), 5, "feeder:0:0", "output_name", "x/0/5"),
    Message(("z", 0), 6, SENTINEL.name),
]


def test_fencepost_headers_in_a_topic_of_a_program_are_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    isolation = Isolation.READ_UNCOMMITTED
    _, rows = read(tmp_path, monkeypatch, isolation, FORWARDED, custom=USERS, expect=CorrelatedExpectation())
    headers = [(row["value"], row["output_name"], row["inputs"], row["sentinel"]) for row in rows["records"]]
    assert headers == [("feeder:0:0", None, [], False), *[(None, None, [], False)] * 2]
    x, z, uncorrelated = rows["records"]
    assert x["correlation_key"] is None and (z["correlation_key"], z["digest"]) == ("b'v'", 77)
    assert (uncorrelated["correlation_key"], uncorrelated["digest"]) == (
        None,
        digest(b"k", b"v", FORWARDED[2].headers()),
    )
    assert rows["expected"] == []


def test_the_read_committed_reader_writes_expected_outputs_of_a_custom_pipeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, rows = read(
        tmp_path,
        monkeypatch,
        Isolation.READ_COMMITTED,
        FORWARDED,
        custom=USERS,
        expect=CorrelatedExpectation(),
    )
    assert [row["value"] for row in rows["polls"]] == ["feeder:0:0", None, None]
    (due,) = rows["expected"]
    assert (due["offset"], due["topic"], due["digest"], due["correlation_key"]) == (5, "z", 77, "b'v'")


def test_a_partition_without_a_sentinel_is_read_up_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end_offsets = {("x", 0): 8, ("y", 0): 0, ("z", 0): 3}
    batches: list[Batch] = [
        [Message(("x", 0), 5, "a"), End(("x", 0), 6), End(("y", 0), 0)],  # x will have more records
        [Message(("z", 0), 1, "b"), End(("z", 0), 3)],  # a marker is at 2
        [Message(("x", 0), 6, "c"), End(("x", 0), 8)],
        [Message(("x", 0), 9, "after the end")],
    ]
    custom = ProgramTopics(frozenset({"z"}), end_offsets)
    events, rows = read(
        tmp_path,
        monkeypatch,
        Isolation.READ_COMMITTED,
        *batches,
        custom=custom,
        expect=CorrelatedExpectation(),
    )
    assert [(row["offset"], row["value"]) for row in rows["polls"]] == [(5, "a"), (1, None), (6, "c")]
    (ends,) = (event["ends"] for event in events if event["type"] == "ends")
    assert ends == {
        "x/0": {"first": 3, "next": 8, "read": 2, "sentinel": 7, "expected": len(rows["expected"])}
    }


@pytest.mark.parametrize(
    ("batch", "last"),
    [([End(("x", 0), 0)], -1), ([Message(("x", 0), 5, "a late record"), End(("x", 0), 6)], 5)],
)
def test_the_last_offset_of_a_partition_that_was_empty_is_the_one_before_its_end(
    batch: Batch, last: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    custom = ProgramTopics(frozenset({"z"}), {("x", 0): 0, ("y", 0): 0})
    events, _ = read(
        tmp_path,
        monkeypatch,
        Isolation.READ_COMMITTED,
        [*batch, End(("y", 0), 0)],
        custom=custom,
        expect=CorrelatedExpectation(),
    )
    (ends,) = (event["ends"] for event in events if event["type"] == "ends")
    assert (ends["x/0"]["sentinel"], ends["x/0"]["next"]) == (last, last + 1)


def test_a_partition_that_was_not_read_to_its_end_has_no_sentinel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    custom = ProgramTopics(frozenset({"z"}), {("x", 0): 8})
    batch = [Message(("x", 0), 6, "a"), End(("x", 0), 7)]
    events, rows = read(
        tmp_path, monkeypatch, Isolation.READ_COMMITTED, batch, custom=custom, expect=CorrelatedExpectation()
    )
    (ends,) = (event["ends"] for event in events if event["type"] == "ends")
    assert ends == {
        "x/0": {"first": 3, "next": 7, "read": 1, "sentinel": None, "expected": len(rows["expected"])}
    }


PARTS = """
name = "parts"

[[stage]]
name = "s"
reads = ["x"]
writes = ["z"]
command = ["true"]

[inputs.x]
make = "expect.py:purchase"

[expect]
outputs = "expect.py:outputs"
correlate = "key"
compare.z = ["headers", "timestamp_ms", "partition"]
"""
GIVES = """
def purchase(rng, n):
    ...

def outputs(topic, key, value, headers):
    output = {"topic": "z", "key": key, "value": value}
    return [output | {"headers": {}, "timestamp_ms": 99, "partition": 0} | CHANGED]
"""


@pytest.mark.parametrize(
    ("changed", "equal"),
    [
        ("{}", True),
        ("{'headers': {'type': 'invoice'}}", False),
        ("{'timestamp_ms': 98}", False),
        ("{'partition': 1}", False),
    ],
)
def test_the_parts_of_an_output_that_are_compared_are_in_its_digest(
    changed: str, equal: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    description = read_pipeline(tmp_path, PARTS, GIVES.replace("CHANGED", changed))
    batch = [Message(("x", 0), 5, "feeder:0:0"), Message(("z", 0), 6, "feeder:0:0")]
    rows = {}
    for isolation in (Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED):
        folder = tmp_path / isolation.value
        folder.mkdir()
        expect = CustomPipeline(description).expectation()
        rows[isolation] = read(folder, monkeypatch, isolation, batch, custom=USERS, expect=expect)[1]
    (_, output), (due,) = (
        rows[Isolation.READ_UNCOMMITTED]["records"],
        rows[Isolation.READ_COMMITTED]["expected"],
    )
    assert output["correlation_key"] == due["correlation_key"] == "k"
    assert (output["digest"] == due["digest"]) is (output["content"] == due["content"]) is equal
    assert output["content"] == "k: v (headers []; timestamp_ms 99; partition 0)"
