"""Final readers: at the end of a run they read every partition whole, and write what they read as columns.

They are no workers: nothing that they do takes effect. One that was killed leaves whole parts and its journal,
and can be started again from the beginning.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import OFFSET_BEGINNING, Consumer
from confluent_kafka import TopicPartition as KafkaTopicPartition

from harness.clients import librdkafka
from harness.clients.records import ClientRecord, as_input, consume
from harness.model.expectation import Expectation
from harness.model.pipeline import TopicPartition
from harness.model.vocabulary import (
    SENTINEL_VALUE,
    VALUE_HEADER,
    Isolation,
)
from harness.processes.control_line import Report
from harness.record.events import EndsRead, Polled, ReadEnd
from harness.record.expected_rows import adds_row, due_row
from harness.record.journal import Journal
from harness.record.naming import (
    digest,
    excerpt,
    header,
    key_name,
    own_headers,
    parse_source,
    parse_sources,
    partition_key,
)
from harness.record.partitions import PartitionIds
from harness.record.parts import PartWriter
from harness.roles.control import Control
from harness.roles.start_offsets import first_offsets

BATCH = 2_000
NOTHING = ""
"""What a record is about in which nothing can be found that joins it to an input."""
FIRST_ASKED_S = 5.0
"""Where that is not known in time, librdkafka asks by itself."""
BEGINNINGS_TIMEOUT_S = 20.0
"""For all partitions together: whoever told the reader to stop waits for its last words."""


@dataclass(frozen=True)
class ProgramTopics:
    """What a reader is told of a pipeline that is not ours."""

    topics: frozenset[str] = frozenset()  # that its programs write
    until: Mapping[TopicPartition, int] = field(default_factory=dict)  # where each partition ends


class FinalReader:
    """Reads every partition from its start to its sentinel, at one isolation level.

    The read-uncommitted one says what every record holds, and what each input must lead to. `stated`: the topics
    of whose records the expectation says anything. Of a pipeline that is not ours (`foreign`) the read-committed one
    says what inputs must lead to, in their order: an expectation may depend on what came before. `partitions`: the
    numbers of the run's partitions.
    """

    def __init__(
        self,
        bootstrap: str,
        places: Sequence[TopicPartition],
        partitions: PartitionIds,
        isolation: Isolation,
        journal: Journal,
        parts: PartWriter,
        control: Control,
        expect: Expectation,
        stated: Collection[str],
        foreign: ProgramTopics | None = None,
    ) -> None:
        self._isolation = isolation
        self._journal = journal
        self._parts = parts
        self._control = control
        self._expect = expect
        self._stated, self._foreign = frozenset(stated), foreign or ProgramTopics()
        states = Isolation.READ_COMMITTED if foreign else Isolation.READ_UNCOMMITTED
        self._states = isolation is states
        settings = librdkafka.reader(bootstrap, journal.name, isolation)
        self._consumer = Consumer(settings | {"enable.partition.eof": bool(self._foreign.until)})
        # Where it begins is asked first: librdkafka puts off its own question by half a second.
        known = first_offsets(self._consumer, places, FIRST_ASKED_S)
        self._consumer.assign(
            [KafkaTopicPartition(*place, known.get(place, OFFSET_BEGINNING)) for place in places]
        )
        self._partitions = partitions
        self._named = {partition_key(topic, number): tp for tp, topic, number in partitions}
        self._tps = {place: partitions.planned(*place) for place in places}
        tps = self._tps.values()
        self._next, self._read = dict.fromkeys(tps, 0), dict.fromkeys(tps, 0)
        self._sentinels: dict[int, int | None] = dict.fromkeys(tps)
        self._due = dict.fromkeys(tps, 0)  # rows of the table expected
        self._until = {tp: self._foreign.until.get(place, 0) for place, tp in self._tps.items()}

    def run(self) -> None:
        """Read until every sentinel was met, or until told to stop; then say from where on and how far. The consumer is
        left to the end of the process, as that of an observer.
        """
        self._control.report(Report(ready=True))
        self._read_all()
        self._parts.finish()
        self._journal.write(EndsRead(self._isolation.value, self._ends()))
        self._control.report(Report(reached=sum(offset is not None for offset in self._sentinels.values())))

    def _read_all(self) -> None:
        given = 0
        while not self._control.stopping and None in self._sentinels.values():
            self._control.listen()
            call_ns = self._journal.now_ns()
            batch = consume(self._consumer, BATCH, 0.1, on_end=self._came_to if self._foreign.until else None)
            if batch:
                op = self._journal.number()
                return_ns = self._journal.write(Polled(0, op, call_ns))
                if self._isolation is Isolation.READ_COMMITTED:
                    self._delivered(op, return_ns, batch)
                else:
                    self._contents(batch)
                given += len(batch)
                self._control.report(Report(given=given))

    def _came_to(self, place: TopicPartition, offset: int) -> None:
        """There is nothing more to read now: markers have offsets, too."""
        tp = self._tps[place]
        self._next[tp] = max(self._next[tp], offset)
        if offset >= self._until[tp]:
            self._sentinels[tp] = self._until[tp] - 1  # as if the last entry were one

    def _ends(self) -> dict[str, ReadEnd]:
        """How far each partition was read, and where its log begins by now; without a leader it is left out."""
        first_positions = first_offsets(self._consumer, list(self._tps), BEGINNINGS_TIMEOUT_S)
        return {
            partition_key(*place): ReadEnd(
                first_positions[place],
                self._next[tp],
                self._read[tp],
                self._sentinels[tp],
                self._due[tp] if self._states else None,
            )
            for place, tp in self._tps.items()
            if place in first_positions
        }

    def _take(self, message: ClientRecord, sentinel: bool) -> tuple[int, int]:
        """The place of a record, by the number of its partition; notes that the partition is read so far."""
        tp, offset = self._tps[message.topic(), message.partition()], message.offset()
        if self._next[tp] <= offset:  # what is told of its end may come first
            self._next[tp] = offset + 1
        self._read[tp] += 1
        if sentinel:
            self._sentinels[tp] = offset
        return tp, offset

    def _delivered(self, op: int, return_ns: int, batch: Sequence[ClientRecord]) -> None:
        """What was given, in the order of delivery."""
        tps, offsets, values = [], [], []
        expected: list[tuple[object, ...]] = []
        for message in batch:
            value = self._value_of(message)
            tp, offset = self._take(message, is_sentinel(value))
            if self._states and message.topic() in self._stated:
                self._expected(message, tp, offset, expected)
            tps.append(tp)
            offsets.append(offset)
            values.append(value)
        count = len(batch)
        self._parts.extend("polls", count, op, list(range(count)), tps, offsets, values, return_ns)
        if expected:
            self._parts.extend("expected", len(expected), *map(list, zip(*expected, strict=True)))

    def _value_of(self, message: ClientRecord) -> str | None:
        """The name of the attempt to send it. What a program has forwarded of our headers means nothing."""
        if message.topic() in self._foreign.topics:
            return None
        return header(message.headers(), VALUE_HEADER)

    def _contents(self, batch: Sequence[ClientRecord]) -> None:
        """What each record holds and says of itself, and what it must lead to if it is an input."""
        records: list[tuple[object, ...]] = []
        expected: list[tuple[object, ...]] = []
        for message in batch:
            headers, key = message.headers() or [], message.key()
            topic, timestamp_ms = message.topic(), message.timestamp()[1]
            value, output_name, sources = own_headers(headers)
            if topic in self._foreign.topics:
                value = output_name = sources = None
            sentinel = is_sentinel(value)
            tp, offset = self._take(message, sentinel)
            inputs = self._inputs(sources) if sources else ()
            state = correlation_key = content = None
            if self._states and topic in self._stated and not sentinel:
                state = self._expected(message, tp, offset, expected)
            found = None
            if topic in self._foreign.topics:
                judged = as_input(message)
                state, found = self._expect.state(judged), self._expect.correlation_key(judged)
                if state is not None or found is not None:
                    content = excerpt(key, message.value())
            if found is not None:
                correlation_key, crc = found.by or NOTHING, found.digest
            else:
                crc = digest(key, message.value(), headers, timestamp_ms)
            named = (
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
            )
            records.append((tp, offset, *named))
        self._parts.extend("records", len(records), *map(list, zip(*records, strict=True)))
        if expected:
            self._parts.extend("expected", len(expected), *map(list, zip(*expected, strict=True)))

    def _inputs(self, sources: str) -> list[tuple[int, int]]:
        """The inputs that a record names, as `tp` and offset. The plan may not name the partition: see `UNPLANNED`."""
        one = parse_source(sources)  # nearly all name one, of a few partitions
        if one is not None and one[0] in self._named:
            return [(self._named[one[0]], one[1])]
        return [
            (self._partitions.planned(topic, partition), offset)
            for topic, partition, offset in parse_sources(sources)
        ]

    def _expected(
        self, message: ClientRecord, tp: int, offset: int, rows: list[tuple[object, ...]]
    ) -> int | None:
        """Write down what a record must lead to; returns the sum that it states, if any."""
        record, before = as_input(message), len(rows)
        rows += [due_row(due, tp, message.partition(), offset) for due in self._expect.due(record)]
        rows += [adds_row(add, tp, offset) for add in self._expect.adds(record)]
        self._due[tp] += len(rows) - before
        return self._expect.state(record)


def is_sentinel(value: str | None) -> bool:
    """Whether a record of that name is the one that the run wrote last into its partition."""
    return value is not None and value.startswith(SENTINEL_VALUE)
