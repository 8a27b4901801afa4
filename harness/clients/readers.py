"""Readers that are not under test: observers during the run, final readers at its end."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from harness.clients import librdkafka
from harness.clients.control import Control
from harness.clients.offsets import Positions
from harness.clients.records import Record, as_input, consume
from harness.clients.tally import Tally
from harness.history import SENTINEL_VALUE, SLOT_HEADER, SOURCE_HEADER, VALUE_HEADER, Isolation, Outcome
from harness.pipeline import Expectation
from harness.record.journal import Journal
from harness.record.naming import digest, header, key_name, parse_sources, partition_key

BATCH = 2_000
ENDS_TIMEOUT_S = 20.0
"""How long an observer that was told to stop reads on to the ends."""
BEGINNINGS_TIMEOUT_S = 20.0
"""For all partitions together: whoever told the reader to stop waits for its last words."""


class Observer:
    """Reads topics at read_committed while the run goes on."""

    def __init__(
        self, bootstrap: str, places: Sequence[tuple[str, int]], journal: Journal, control: Control
    ) -> None:
        self._journal = journal
        self._control = control
        self._given = Tally(places)
        self._errors = 0
        self._places = set(places)
        self._ends: dict[tuple[str, int], int] = {}  # where there was nothing more to read
        settings = librdkafka.reader(bootstrap, journal.name, Isolation.READ_COMMITTED)
        self._consumer = Consumer(settings | {"enable.partition.eof": True})
        self._consumer.assign([TopicPartition(*place, OFFSET_BEGINNING) for place in places])

    def run(self) -> None:
        """Read until told to stop, and then to the ends; then say, of every partition, what it was given."""
        self._control.tell(ready=True)
        deadline: float | None = None
        while self._goes_on(deadline):
            if self._control.stopping:
                deadline = deadline or time.monotonic() + ENDS_TIMEOUT_S
            else:
                self._control.listen()
            call_ns = self._journal.now_ns()
            batch = consume(self._consumer, BATCH, 0.2, self._met, self._ends.__setitem__)
            if batch:
                event = {"f": "poll", "process": 0, "op": self._journal.number(), "call": call_ns}
                self._journal.write(Outcome.OK, event | {"records": Positions.delivered(batch)})
                self._given.add(batch)
        ends = {"isolation": Isolation.READ_COMMITTED.value, "ends": self._given.ends}
        self._journal.write("ends", ends | {"errors": self._errors})
        self._consumer.close()

    def _goes_on(self, deadline: float | None) -> bool:
        if not self._control.stopping:
            return True
        read = {place: self._given.ends[partition_key(*place)]["next"] or 0 for place in self._places}
        behind = [place for place in self._places if self._ends.get(place, -1) < read[place]]
        return bool(behind) and (deadline is None or time.monotonic() < deadline)

    def _met(self, error: KafkaError) -> None:
        """Note an error of the consumer, with how many there have been."""
        self._errors += 1
        self._journal.write("note", {"error": librdkafka.words(error), "errors": self._errors})


class FinalReader:
    """Reads every partition from its start to its sentinel, at one isolation level.

    The read-uncommitted one says what every record holds, and what each input must lead to.
    """

    def __init__(
        self,
        bootstrap: str,
        places: Sequence[tuple[str, int]],
        isolation: Isolation,
        journal: Journal,
        control: Control,
        expect: Expectation,
    ) -> None:
        self._isolation = isolation
        self._journal = journal
        self._control = control
        self._expect = expect
        self._consumer = Consumer(librdkafka.reader(bootstrap, journal.name, isolation))
        self._consumer.assign([TopicPartition(*place, OFFSET_BEGINNING) for place in places])
        self._places = places
        self._given = 0
        self._ends: dict[str, dict[str, int | None]] = {
            partition_key(*place): {"first": 0, "next": 0, "read": 0, "sentinel": None} for place in places
        }

    def run(self) -> None:
        """Read until every sentinel was met, or until told to stop; then say from where on and how far."""
        self._control.tell(ready=True)
        while not self._control.stopping and any(end["sentinel"] is None for end in self._ends.values()):
            self._control.listen()
            call_ns = self._journal.now_ns()
            batch = consume(self._consumer, BATCH, 0.1)
            if batch:
                self._record(call_ns, batch)
        self._tell_beginnings()
        self._journal.write("ends", {"isolation": self._isolation.value, "ends": self._ends})
        self._control.tell(reached=sum(end["sentinel"] is not None for end in self._ends.values()))
        self._consumer.close()

    def _tell_beginnings(self) -> None:
        """Where each log begins by now; of a partition without a leader nothing is said."""
        deadline = time.monotonic() + BEGINNINGS_TIMEOUT_S
        for place in self._places:
            first = first_offset(self._consumer, *place, max(0.1, deadline - time.monotonic()))
            if first is None:
                del self._ends[partition_key(*place)]
            else:
                self._ends[partition_key(*place)]["first"] = first

    def _record(self, call_ns: int, batch: Sequence[Record]) -> None:
        event: dict[str, Any] = {"f": "poll", "process": 0, "op": self._journal.number(), "call": call_ns}
        if self._isolation is Isolation.READ_COMMITTED:
            event["records"] = Positions.delivered(batch)
        else:
            event |= self._contents(batch)
        self._journal.write(Outcome.OK, event)
        for message in batch:
            end = self._ends[partition_key(message.topic(), message.partition())]
            end["next"] = message.offset() + 1
            end["read"] = (end["read"] or 0) + 1
            if is_sentinel(message):
                end["sentinel"] = message.offset()
        self._given += len(batch)
        self._control.tell(given=self._given)

    def _contents(self, batch: Sequence[Record]) -> Mapping[str, Any]:
        """What each record holds and says of itself, and what it must lead to if it is an input."""
        told: dict[str, dict[str, list[Any]]] = {
            "contents": {}, "keys": {}, "states": {}, "expected": {}, "adds": {}
        }  # fmt: skip
        for message in batch:
            place = partition_key(message.topic(), message.partition())

            def tell(what: str, row: Any, place: str = place) -> None:
                told[what].setdefault(place, []).append(row)

            headers = message.headers() or []
            sources: list[Any] = []
            for topic, partition, offset in parse_sources(header(headers, SOURCE_HEADER)):
                sources += [partition_key(topic, partition), offset]
            tell(
                "contents",
                [
                    message.offset(),
                    header(headers, VALUE_HEADER),
                    header(headers, SLOT_HEADER),
                    digest(message.key(), message.value(), headers),
                    message.timestamp()[1],
                    *sources,
                ],
            )
            tell("keys", key_name(message.key()))
            if is_sentinel(message):
                tell("states", None)
                continue
            record = as_input(message)
            tell("states", self._expect.state(record))
            for due in self._expect.due(record):
                crc = due.digest(message.partition(), message.offset())
                tell("expected", [message.offset(), due.stage, due.slot, due.topic, crc])
            for add in self._expect.adds(record):
                tell("adds", [message.offset(), add.stage, add.topic, key_name(add.key), add.amount])
        told["states"] = {
            place: states
            for place, states in told["states"].items()
            if any(state is not None for state in states)
        }
        return {what: rows for what, rows in told.items() if rows}


def is_sentinel(message: Record) -> bool:
    """Whether it is the record that the run wrote last into its partition."""
    name = header(message.headers(), VALUE_HEADER)
    return name is not None and name.startswith(SENTINEL_VALUE)


def first_offset(consumer: Consumer, topic: str, partition: int, timeout_s: float) -> int | None:
    """Where its log begins: what stood before is gone. None: no leader has answered in time."""
    try:
        answer: tuple[int, int] | None = consumer.get_watermark_offsets(
            TopicPartition(topic, partition), timeout=timeout_s
        )
    except KafkaException:
        return None
    return answer[0] if answer else None
