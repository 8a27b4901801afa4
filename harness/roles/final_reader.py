"""Final readers: after the run they read every partition to its end, and write the records as columns.

A final reader changes nothing on the cluster. If it is killed, the Parquet parts that it has completed, and its
journal, remain. The run can start it again from the beginning.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition

from harness.clients import librdkafka
from harness.clients.interface import ClientRecord, as_input, consume
from harness.model.expectation import Expectation
from harness.model.pipeline import TopicPartition
from harness.model.vocabulary import (
    SENTINEL_VALUE,
    VALUE_HEADER,
    Isolation,
)
from harness.processes.messages import Report
from harness.record.events import EndsRead, Polled, ReadEnd
from harness.record.journal import Journal
from harness.record.naming import (
    PartitionIds,
    digest,
    excerpt,
    fencepost_headers,
    header,
    key_name,
    parse_single_source,
    parse_sources,
    partition_key,
)
from harness.record.parts import PartWriter, expected_output_row, expected_sum_row, numbered
from harness.roles.control import Control

MIN_TIMEOUT_S = 0.1
"""The shortest time-out of a request for a single partition."""
BATCH = 2_000
NO_CORRELATION_KEY = ""
"""The correlation key of a record that has none, so that it cannot be joined to an input."""
FIRST_LOOKUP_TIMEOUT_S = 5.0
"""Time limit for looking up the log start offsets before reading. After it, librdkafka looks them up itself."""
LAST_LOOKUP_TIMEOUT_S = 20.0
"""Time limit for looking up the log start offsets again after reading. The run waits for the reader meanwhile."""


def log_start_offsets(
    consumer: Consumer, topic_partitions: Sequence[TopicPartition], timeout_s: float
) -> dict[TopicPartition, int]:
    """Return the log start offset of each partition. A partition whose leader does not answer in time is left out.

    One request for all partitions takes 10 ms in total; one request for each takes 50 ms per partition. But the common
    request fails if one partition has no leader. Then each partition has its own request, in the second half of the
    time.
    """
    deadline = time.monotonic() + timeout_s
    try:
        return _request_offsets(consumer, topic_partitions, timeout_s / 2)
    except KafkaException:
        offsets: dict[TopicPartition, int] = {}
        for remaining, topic_partition in zip(
            range(len(topic_partitions), 0, -1), topic_partitions, strict=True
        ):
            try:
                offsets |= _request_offsets(
                    consumer, [topic_partition], max(MIN_TIMEOUT_S, (deadline - time.monotonic()) / remaining)
                )
            except KafkaException:
                continue  # the caller reports a missing partition
        return offsets


def _request_offsets(
    consumer: Consumer, topic_partitions: Sequence[TopicPartition], timeout_s: float
) -> dict[TopicPartition, int]:
    partitions = [
        KafkaTopicPartition(*topic_partition, OFFSET_BEGINNING) for topic_partition in topic_partitions
    ]
    answers = consumer.offsets_for_times(partitions, timeout=timeout_s)
    return {
        (answer.topic, answer.partition): answer.offset
        for answer in answers
        if answer.error is None and answer.offset >= 0
    }


@dataclass(frozen=True)
class ProgramTopics:
    """Topics of a custom pipeline."""

    topics: frozenset[str] = frozenset()  # topics that its programs write
    # The reader ends at these offsets, because there are no sentinels.
    end_offsets: Mapping[TopicPartition, int] = field(default_factory=dict)


class FinalReader:
    """Reads every partition from its start to its sentinel or its end offset, at one isolation level.

    The read-uncommitted reader writes the content of every record. It also writes the expected outputs of each input of
    a workload. For a custom pipeline the read-committed reader writes the expected outputs, because they may depend on
    the order of the committed inputs.

    Args:
        topic_partitions: the partitions to read.
        partitions: the numbers of the run's partitions.
        parts: writes the columns.
        expect: computes the expected outputs.
        expect_topics: the topics whose records `expect` can handle.
        custom: the topics of a custom pipeline; None: the pipeline is a workload.
    """

    def __init__(
        self,
        bootstrap: str,
        topic_partitions: Sequence[TopicPartition],
        partitions: PartitionIds,
        isolation: Isolation,
        journal: Journal,
        parts: PartWriter,
        control: Control,
        expect: Expectation,
        expect_topics: Collection[str],
        custom: ProgramTopics | None = None,
    ) -> None:
        self._isolation = isolation
        self._journal = journal
        self._parts = parts
        self._control = control
        self._expect = expect
        self._expect_topics, self._custom = frozenset(expect_topics), custom or ProgramTopics()
        expecting_level = Isolation.READ_COMMITTED if custom else Isolation.READ_UNCOMMITTED
        self._writes_expected = isolation is expecting_level
        settings = librdkafka.reader(bootstrap, journal.name, isolation)
        self._consumer = Consumer(settings | {"enable.partition.eof": bool(self._custom.end_offsets)})
        # Look up the log start offsets here, because librdkafka waits half a second before it does.
        known = log_start_offsets(self._consumer, topic_partitions, FIRST_LOOKUP_TIMEOUT_S)
        self._consumer.assign(
            [
                KafkaTopicPartition(*topic_partition, known.get(topic_partition, OFFSET_BEGINNING))
                for topic_partition in topic_partitions
            ]
        )
        self._partitions = partitions
        self._tp_by_key = {partition_key(topic, number): tp for tp, topic, number in partitions}
        self._tps = {
            topic_partition: partitions.planned(*topic_partition) for topic_partition in topic_partitions
        }
        tps = self._tps.values()
        self._next, self._read = dict.fromkeys(tps, 0), dict.fromkeys(tps, 0)
        self._sentinels: dict[int, int | None] = dict.fromkeys(tps)
        self._expected_rows = dict.fromkeys(tps, 0)  # rows of the table `expected`
        self._end_offsets = {
            tp: self._custom.end_offsets.get(topic_partition, 0) for topic_partition, tp in self._tps.items()
        }

    def run(self) -> None:
        """Read until every sentinel was read or the run says stop. Then record first and last offsets.

        The consumer is not closed, because that often takes a second and there is no group to leave.
        """
        self._control.report(Report(ready=True))
        self._read_all()
        self._parts.finish()
        self._journal.write(EndsRead(self._isolation.value, self._ends()))
        self._control.report(Report(reached=sum(offset is not None for offset in self._sentinels.values())))

    def _read_all(self) -> None:
        record_count = 0
        while not self._control.stopping and None in self._sentinels.values():
            self._control.listen()
            call_ns = self._journal.now_ns()
            on_end = self._note_end if self._custom.end_offsets else None
            batch = consume(self._consumer, BATCH, 0.1, on_end=on_end)
            if batch:
                op = self._journal.number()
                return_ns = self._journal.write(Polled(0, op, call_ns))
                if self._isolation is Isolation.READ_COMMITTED:
                    self._write_polls(op, return_ns, batch)
                else:
                    self._write_records(batch)
                record_count += len(batch)
                self._control.report(Report(records_read=record_count))

    def _note_end(self, topic_partition: TopicPartition, offset: int) -> None:
        """Note the current end of a partition. It may be above the last record, because markers have offsets."""
        tp = self._tps[topic_partition]
        self._next[tp] = max(self._next[tp], offset)
        if offset >= self._end_offsets[tp]:
            self._sentinels[tp] = (
                offset - 1
            )  # take the last log entry as the sentinel; -1 if the log is empty

    def _ends(self) -> dict[str, ReadEnd]:
        """Return each log's first offset and the end of the read. Leave out a partition without a leader."""
        firsts = log_start_offsets(self._consumer, list(self._tps), LAST_LOOKUP_TIMEOUT_S)
        return {
            partition_key(*topic_partition): ReadEnd(
                firsts[topic_partition],
                self._next[tp],
                self._read[tp],
                self._sentinels[tp],
                self._expected_rows[tp] if self._writes_expected else None,
            )
            for topic_partition, tp in self._tps.items()
            if topic_partition in firsts
        }

    def _count_record(self, message: ClientRecord, sentinel: bool) -> tuple[int, int]:
        """Count a record, and return the number of its partition and its offset."""
        tp, offset = self._tps[message.topic(), message.partition()], message.offset()
        if self._next[tp] <= offset:  # `_note_end` may have noted a higher offset before
            self._next[tp] = offset + 1
        self._read[tp] += 1
        if sentinel:
            self._sentinels[tp] = offset
        return tp, offset

    def _write_polls(self, op: int, return_ns: int, batch: Sequence[ClientRecord]) -> None:
        """Write rows of the table `polls`, in the order of delivery."""
        tps, offsets, values = [], [], []
        expected: list[tuple[object, ...]] = []
        for message in batch:
            value = self._value_of(message)
            tp, offset = self._count_record(message, is_sentinel(value))
            if self._writes_expected and message.topic() in self._expect_topics:
                self._add_expected(message, tp, offset, expected)
            tps.append(tp)
            offsets.append(offset)
            values.append(value)
        count = len(batch)
        self._parts.extend("polls", count, op, list(range(count)), tps, offsets, values, return_ns)
        if expected:
            self._parts.extend("expected", len(expected), *map(list, zip(*expected, strict=True)))

    def _value_of(self, message: ClientRecord) -> str | None:
        """Return the attempt name of a record.

        It is None in a topic that a custom pipeline writes, because a program may copy our headers from its inputs.
        """
        if message.topic() in self._custom.topics:
            return None
        return header(message.headers(), VALUE_HEADER)

    def _write_records(self, batch: Sequence[ClientRecord]) -> None:
        """Write rows of the table `records`, and of `expected` for inputs."""
        records: list[tuple[object, ...]] = []
        expected: list[tuple[object, ...]] = []
        for message in batch:
            headers, key = message.headers() or [], message.key()
            topic, timestamp_ms = message.topic(), message.timestamp()[1]
            value, output_name, sources = fencepost_headers(headers)
            if topic in self._custom.topics:
                value = output_name = sources = None
            sentinel = is_sentinel(value)
            tp, offset = self._count_record(message, sentinel)
            inputs = self._inputs(sources) if sources else ()
            state = correlation_key = content = None
            if self._writes_expected and topic in self._expect_topics and not sentinel:
                state = self._add_expected(message, tp, offset, expected)
            correlation = None
            if topic in self._custom.topics:
                output = as_input(message)
                state, correlation = self._expect.held_sum(output), self._expect.correlation_key(output)
                if state is not None or correlation is not None:
                    more = "" if correlation is None else correlation.more
                    content = excerpt(key, message.value(), more)
            if correlation is not None:
                correlation_key, crc = correlation.key or NO_CORRELATION_KEY, correlation.digest
            else:
                crc = digest(key, message.value(), headers, timestamp_ms)
            columns = (
                value,
                output_name,
                inputs,
                crc,
                timestamp_ms,
                sentinel,
                key_name(key),
                state,
                correlation_key,
                content,
                len(key or b"") + len(message.value() or b""),
            )
            records.append((tp, offset, *columns))
        self._parts.extend("records", len(records), *map(list, zip(*records, strict=True)))
        if expected:
            self._parts.extend("expected", len(expected), *map(list, zip(*expected, strict=True)))

    def _inputs(self, sources: str) -> list[tuple[int, int]]:
        """Return the inputs in the headers of a record, as partition number and offset.

        If a partition is not in the plan, its number is negative.
        """
        source = parse_single_source(sources)  # fast path: nearly all records name one input
        if source is not None and source[0] in self._tp_by_key:
            return [(self._tp_by_key[source[0]], source[1])]
        return [
            (self._partitions.planned(topic, partition), offset)
            for topic, partition, offset in parse_sources(sources)
        ]

    def _add_expected(
        self, message: ClientRecord, tp: int, offset: int, rows: list[tuple[object, ...]]
    ) -> int | None:
        """Add the expected outputs of a record to `rows`. Return the total that the record states, or None."""
        record = as_input(message)
        own = [
            expected_output_row(due, tp, message.partition(), offset)
            for due in self._expect.expected_outputs(record)
        ]
        own += [expected_sum_row(add, tp, offset) for add in self._expect.expected_sums(record)]
        rows += numbered(own)
        self._expected_rows[tp] += len(own)
        return self._expect.held_sum(record)


def is_sentinel(value: str | None) -> bool:
    """Return whether this is the attempt name of a sentinel."""
    return value is not None and value.startswith(SENTINEL_VALUE)
