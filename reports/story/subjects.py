"""What findings name: ids and partitions, their records and inputs, their time, and the attempts that touched them.

An attempt is a transaction, or a send outside transactions.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness.common.wording import integer, printable
from harness.model.vocabulary import Outcome
from harness.record.protocol_journal import JournaledRequest
from harness.record.table_reader import Row
from harness.results import MOST_S
from harness.results.example import Example, Operation, Part, PassingCommit
from reports.story.model import TICK_NS
from reports.story.roles import process_at
from reports.story.run import OFFSETS, Position, Story

MOST_RECORDS = 50
MOST_INPUTS = 3
Interval = tuple[float, float]
"""The begin and the end of something, in seconds since the start of the run."""
MOST_ATTEMPTS = 4
MOST_RELATED = 2
MOST_WRITTEN = 4
MOST_PAST = 32
"""The largest number of offset commits past an input that are looked up."""


@dataclass(frozen=True)
class ShownFinding:
    """An example of a finding that the report shows, and the anchor of its place there."""

    anomaly: str
    anchor: str
    sentence: str
    span: Interval | None = None  # None: its time is not known
    decides: bool = True  # false for warnings and permitted anomalies
    count: int = 0  # all findings of this anomaly


@dataclass(frozen=True)
class Subjects:
    """The names that findings contain."""

    transactional_ids: frozenset[str] = frozenset()
    processes: frozenset[str] = frozenset()  # journals
    operations: frozenset[str] = frozenset()
    partitions: frozenset[str] = frozenset()  # such as `invoices/3`
    producer_ids: frozenset[int] = field(default_factory=frozenset)


def subjects(examples: Iterable[Example]) -> Subjects:
    """Return the names in all parts of these examples."""
    by_key: dict[str, set[object]] = {}
    for example in examples:
        for part in example.parts():
            for key in ("transactional_id", "journal", "name", "producer_id"):
                if isinstance(value := part.get(key), str | int):
                    by_key.setdefault(key, set()).add(value)
            if isinstance(part.get("topic"), str) and integer(part.get("partition")) is not None:
                by_key.setdefault("partition", set()).add(part.partition)
        if isinstance(own := example.facts.get("transactional_id"), str):
            by_key.setdefault("transactional_id", set()).add(own)

    def texts(key: str) -> frozenset[str]:
        return frozenset(value for value in by_key.get(key, ()) if isinstance(value, str))

    producer_ids = frozenset(
        number for value in by_key.get("producer_id", ()) if (number := integer(value)) is not None
    )
    return Subjects(
        texts("transactional_id"), texts("journal"), texts("name"), texts("partition"), producer_ids
    )


def spans(story: Story, examples: Sequence[Example]) -> list[Interval | None]:
    """Return when each example happened: from the start of its first operation to the end of its last one.

    For an example without times of operations, this is the time of its records in the leaders' logs. A finding that is
    an interval, such as `stalled`, has its times itself. Raises `UnreadableInput`.
    """
    placed: list[Interval | None] = [_own_interval(each) or _of_operations(each) for each in examples]
    without = {
        n: _first_positions(story, examples[n]) for n, interval in enumerate(placed) if interval is None
    }
    story.load_batches(position for positions in without.values() for position in positions)
    for n, positions in without.items():
        times_ns = (story.time_of(position) for position in positions)
        times_s = [time_ns / 1e9 for time_ns in times_ns if time_ns is not None]
        placed[n] = (min(times_s), max(times_s)) if times_s else None
    return placed


def _own_interval(example: Example) -> Interval | None:
    times_s = [example.facts.get(name) for name in ("from_s", "to_s")]
    known_s = [float(at_s) for at_s in times_s if isinstance(at_s, int | float) and 0 <= at_s <= MOST_S]
    return (min(known_s), max(known_s)) if len(known_s) == len(times_s) else None


def _of_operations(example: Example) -> Interval | None:
    """A reader reads long after the fact, so its time counts only if there is no other operation."""
    writers = [operation for operation in example.operations if operation.label != "reader"]
    times = [time for operation in writers or example.operations for time in _times_s(operation)]
    return (min(times), max(times)) if times else None


def _times_s(operation: Operation) -> list[float]:
    times_ns = (integer(operation.get(name)) for name in ("call_ns", "commit_ns", "return_ns"))
    return [time_ns / 1e9 for time_ns in times_ns if time_ns is not None]


def _first_positions(story: Story, example: Example) -> list[Position]:
    """Return the positions of its records, or else of its inputs."""
    records = positions_of(story, example.records)
    return records or positions_of(story, (*example.inputs, *example.positions))


def records_of(story: Story, example: Example) -> list[Position]:
    """Return the positions of the first records of an example."""
    return positions_of(story, example.records)


def inputs_of(story: Story, example: Example) -> list[Position]:
    """Return the positions of the first inputs of an example."""
    return positions_of(story, example.inputs, MOST_INPUTS)


def offset_partitions_of(story: Story, example: Example) -> set[int]:
    """Return the partitions whose committed offsets tell about an example: those of its inputs and offsets."""
    numbers = story.tables.numbers
    parts = [(str(part.get("topic")), integer(part.get("partition")) or 0) for part in example.offsets]
    return {numbers[each] for each in parts if each in numbers} | {tp for tp, _ in inputs_of(story, example)}


def positions_of(story: Story, parts: Iterable[Part], most: int = MOST_RECORDS) -> list[Position]:
    """Return the first positions of some parts of an example that are in partitions of the run, each once."""
    positions: dict[Position, None] = {}
    for part in parts:
        offset, partition = integer(part.get("offset")), integer(part.get("partition"))
        tp = story.tables.numbers.get((str(part.get("topic")), partition if partition is not None else -1))
        if tp is not None and offset is not None:
            positions[tp, offset] = None
    return list(positions)[:most]


@dataclass(frozen=True)
class Attempt:
    """What one process did to the records of a finding. A time of None is not known, or did not come."""

    process: str  # its journal (`shop-1.0`), its transactional id, or `producer 7`
    name: str = ""  # the operation (`shop-1.0:7`); empty: from the broker logs
    transactional_id: str | None = None
    begin_ns: int | None = None
    decided_ns: int | None = None  # when the commit was requested, or accepted by the coordinator
    end_ns: int | None = None
    asked: str = ""  # how the process wanted to end it: commit or abort; empty: not known
    outcome: str = ""  # ok, fail or info, as its process knows it; empty: not known
    error: str = ""
    producer: tuple[int, int] | None = None  # producer id and epoch
    op: int | None = None  # the number of the operation; None: from the broker logs
    inputs: tuple[Position, ...] = ()  # the inputs of the finding that it processed
    records: tuple[Position, ...] = ()  # the records of the finding that it wrote
    taken_over_ns: int | None = None  # when its transactional id was next used, if its end did not come

    @property
    def transactional(self) -> bool:
        """True if it is a transaction."""
        return self.transactional_id is not None

    @property
    def words(self) -> str:
        """It in words: `shop-1.0:7`, or `the transaction of bill-3.0`."""
        return self.name or (f"the transaction of {self.process}" if self.transactional else self.process)

    def lasts_at(self, time_ns: int | None) -> bool:
        """Return whether it was under way at this time."""
        if time_ns is None or self.begin_ns is None:
            return False
        last_ns = self.taken_over_ns if self.end_ns is None else self.end_ns
        return self.begin_ns - TICK_NS <= time_ns and (last_ns is None or time_ns <= last_ns + TICK_NS)


def attempts_of(story: Story, example: Example) -> list[Attempt]:
    """Return the attempts of an example, in the order of their start; at most `MOST_ATTEMPTS`."""
    found = _by_logs(story, example) if story.by_logs else _by_journals(story, example)
    ordered = sorted(found, key=lambda attempt: (attempt.begin_ns is None, attempt.begin_ns or 0))
    return ordered[:MOST_ATTEMPTS]


def _by_journals(story: Story, example: Example) -> Iterator[Attempt]:
    """Yield the operations of the example, and those that wrote its records."""
    operations: dict[str, Any] = {
        str(operation.get("name")): operation
        for operation in example.operations
        if operation.get("name") and operation.get("f") != "poll"
    }
    for part in example.parts():
        if isinstance(part, PassingCommit) and part.get("name"):
            operations[str(part.get("name"))] = part.operation
    writers: dict[str, list[Position]] = {}
    for record in example.records:
        value = record.get("value")
        position = next(iter(records_of(story, Example({"record": record}))), None)
        if position is not None:
            name = value.rpartition(":")[0] if isinstance(value, str) else _sender_of_offsets(story, position)
            writers.setdefault(name, []).append(position)
    stored = story.operations(writers.keys() - operations.keys() - {""})
    operations |= {name: Operation("operation", dict(row)) for name, row in stored.items()}
    inputs = tuple(inputs_of(story, example))
    for name, operation in operations.items():
        yield _of_operation(story, name, operation, inputs, tuple(writers.get(name, ())))


def _of_operation(
    story: Story, name: str, operation: Any, inputs: tuple[Position, ...], records: tuple[Position, ...]
) -> Attempt:
    journal, own_id = operation.get("journal"), operation.get("transactional_id")
    attempt = Attempt(
        printable(journal or name.partition(":")[0], 60),
        name,
        None if own_id is None or operation.get("f") != "txn" else str(own_id),
        integer(operation.get("call_ns")),
        integer(operation.get("commit_ns")),
        integer(operation.get("return_ns")),
        str(operation.get("asked") or ""),
        str(operation.get("outcome") or ""),
        str(operation.get("error") or ""),
        op=integer(operation.get("op")),
        inputs=story.taken(inputs, integer(operation.get("op"))) if operation.get("stage") else (),
        records=records,
    )
    return replace(attempt, producer=_producer(story, records), taken_over_ns=_taken_over_ns(story, attempt))


def related_attempts(story: Story, example: Example, attempts: Sequence[Attempt]) -> list[Attempt]:
    """Return the last transactions that had processed the inputs of an example and were aborted, or whose process died.

    They left nothing, so the example does not name them. They say why an input was read again.
    """
    inputs = tuple(inputs_of(story, example))
    until_ns = max((attempt.begin_ns or 0 for attempt in attempts), default=0)
    related = _aborted_by_logs(story, inputs) if story.by_logs else _aborted_by_journals(story, inputs)
    known = {(attempt.process, attempt.begin_ns) for attempt in attempts}
    new = {(each.process, each.begin_ns): each for each in related if (each.begin_ns or 0) <= until_ns}
    return sorted(
        (each for key, each in new.items() if key not in known), key=lambda each: each.begin_ns or 0
    )[-MOST_RELATED:]


def _aborted_by_journals(story: Story, inputs: tuple[Position, ...]) -> Iterator[Attempt]:
    for row in story.tables.rows("ops", op=story.takers(inputs), f=["txn"]):
        if row["stage"] is not None and row["outcome"] != Outcome.OK.value:
            sends = story.tables.rows("sends", op=[row["op"]])
            written = [
                (send["tp"], send["offset"])
                for send in sends
                if send["offset"] is not None
                and any((source["tp"], source["offset"]) in inputs for source in send["inputs"])
            ]
            yield _of_operation(story, str(row["name"]), row, inputs, tuple(written[:MOST_WRITTEN]))


def _aborted_by_logs(story: Story, inputs: tuple[Position, ...]) -> Iterator[Attempt]:
    """Yield the transactions that were aborted with an offset past an input, before the one that counts."""
    for tp, offset in inputs:
        past = [row for row in story.offset_commits({tp}) if (row["committed"] or 0) > offset][:MOST_PAST]
        positions = [(row["log_tp"], row["log_offset"]) for row in past]
        story.load_batches(positions)
        for position in positions:
            batch = story.batch(position)
            if batch is None or not batch["transactional"] or batch["marker"] == "commit":
                break
            yield replace(_writer(story, batch), inputs=((tp, offset),), records=(position,))


def _sender_of_offsets(story: Story, position: Position) -> str:
    """Return the operation that sent the offsets of a group in a transaction. Empty: it is not known."""
    batch = story.batch(position) if story.tables.topic(position[0]) == OFFSETS else None
    own = None if batch is None else story.ids_by_producer.get(batch["producer_id"])
    at_ns = None if batch is None else story.tables.at_ns(batch["max_timestamp_ms"])
    operation = None if own is None or at_ns is None else story.operation_at(own, at_ns)
    return "" if operation is None else str(operation["name"])


def _taken_over_ns(story: Story, attempt: Attempt) -> int | None:
    if attempt.end_ns is not None or attempt.transactional_id is None or attempt.begin_ns is None:
        return None
    calls_ns = (row["call_ns"] for row in story.operations_of(attempt.transactional_id))
    return next((call_ns for call_ns in calls_ns if call_ns > attempt.begin_ns), None)


def _producer(story: Story, records: Sequence[Position]) -> tuple[int, int] | None:
    batch = next((batch for each in records if (batch := story.batch(each)) is not None), None)
    return None if batch is None or batch["producer_id"] < 0 else (batch["producer_id"], batch["epoch"])


def _by_logs(story: Story, example: Example) -> Iterator[Attempt]:
    """Yield the transactions that wrote the records of the example, from the broker logs."""
    inputs = tuple(inputs_of(story, example))
    by_transaction: dict[tuple[Any, ...], Attempt] = {}
    for position in records_of(story, example):
        batch = story.batch(position)
        if batch is None or position in inputs:
            continue
        attempt = _writer(story, batch)
        key = (attempt.process, attempt.begin_ns, attempt.producer)
        before = by_transaction.get(key, attempt)
        # A transaction that only committed offsets past the inputs may have processed others.
        taken = before.inputs if story.tables.topic(position[0]) == OFFSETS else inputs
        by_transaction[key] = replace(before, inputs=taken, records=(*before.records, position))
    yield from by_transaction.values()


def _writer(story: Story, batch: Row) -> Attempt:
    """Return the transaction that wrote a batch, without its records."""
    producer_id = batch["producer_id"]
    written_ns, _ = story.written_ns(batch)
    own_id = story.ids_by_producer.get(producer_id)
    if own_id is None or not batch["transactional"]:
        who = f"producer {producer_id}" if producer_id >= 0 else "a producer without an id"
        return Attempt(who, begin_ns=written_ns, end_ns=written_ns)
    row = story.transaction_of(batch) or {}
    outcome = {"commit": Outcome.OK.value, "abort": Outcome.FAIL.value}.get(batch["marker"] or "", "")
    return Attempt(
        process_at(story, own_id, row.get("begin_ns", written_ns)) or own_id,
        transactional_id=own_id,
        begin_ns=row.get("begin_ns", written_ns),
        decided_ns=row.get("decided_ns"),
        end_ns=row.get("end_ns"),
        asked="commit" if row.get("decided_ns") is not None else "",
        outcome=outcome,
        producer=(producer_id, batch["epoch"]),
    )


def changed_requests(story: Story, ids: Sequence[str], attempts: Sequence[Attempt]) -> list[JournaledRequest]:
    """Return the requests of these transactional ids that a rule changed, and that were sent, delivered or answered
    during one of the attempts.
    """
    return [
        each
        for each in story.protocol.under_way(ids)
        if any(
            attempt.lasts_at(at_ns)
            for attempt in attempts
            for at_ns in (each.request.seen_ns, each.request.delivered_ns, each.answered_ns)
        )
    ]
