"""The feeder: writes the inputs of a run at a constant rate, idempotently.

Every record in an input topic at the end of the run is an input, even if the feeder got no acknowledgement for it.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import cast

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from harness.clients import librdkafka
from harness.clients.interface import ProducerSettings
from harness.common.errors import UsageError
from harness.model.expectation import Feed, FeedRecord
from harness.model.vocabulary import Outcome
from harness.processes.messages import Report
from harness.record.events import Ack, Completed, Invoked
from harness.record.journal import Journal
from harness.record.naming import Headers, digest, input_headers, value_name
from harness.roles.control import Control

TICK_S = 0.05
FLUSH_TIMEOUT_S = 60.0
LARGEST_INPUT_BYTES = 100_000_000
"""The feeder refuses a larger input. A broker does not answer such a request (`socket.request.max.bytes`)."""

OTHER_TIME_MS = 1_800_000
"""A time stamp is not that of the present if it differs from the feeder's clock by more."""


@dataclass
class FeedState:
    """Progress of one feed."""

    feed: Feed
    rate: float  # inputs per second
    rng: Random
    sent: int = 0


@dataclass
class FeedBatch:
    """The inputs of one tick. They are one operation, which completes when every record has a result."""

    op: int
    acks: list[Ack | None]
    results: int = 0  # records with a result
    error: str | None = None


class Feeder:
    """Writes inputs to its topics until the run stops it."""

    def __init__(
        self,
        settings: ProducerSettings,
        feeds: Sequence[Feed],
        rate: float,
        seed: int,
        journal: Journal,
        control: Control,
    ) -> None:
        shares = sum(feed.share for feed in feeds)
        self._feeds = [
            FeedState(feed, rate * feed.share / shares, Random(f"{seed}/inputs" + (f"/{n}" if n else "")))
            for n, feed in enumerate(feeds)
        ]
        self._journal = journal
        self._control = control
        batch_bytes = [feed.batch_bytes for feed in feeds if feed.batch_bytes is not None]
        settings = replace(
            settings, largest_bytes=LARGEST_INPUT_BYTES, batch_bytes=min(batch_bytes, default=None)
        )
        self._producers = {
            partitioner: Producer(librdkafka.idempotent_producer(settings, partitioner))
            for partitioner in dict.fromkeys(feed.partitioner for feed in feeds)
        }
        self.acked = 0
        self._refusal: UsageError | None = None

    def run(self) -> None:
        """Wait until the run says go. Send inputs at every tick until it says stop. Then wait for their results.

        Raises `UsageError` for an input that is not possible in its topic.
        """
        self._control.report(Report(ready=True))
        self._control.await_go()
        begun = time.monotonic()
        while not self._control.stopping:
            for state in self._feeds:
                count_due = int((time.monotonic() - begun) * state.rate) - state.sent
                if state.feed.count is not None:
                    count_due = min(count_due, state.feed.count - state.sent)
                if count_due > 0:
                    self._send(state, count_due)
            for producer in self._producers.values():
                producer.poll(TICK_S / len(self._producers))
            self._raise_refusal()
            self._control.listen()
            self._control.report(Report(inputs_acked=self.acked))
        deadline = time.monotonic() + FLUSH_TIMEOUT_S
        for producer in self._producers.values():
            producer.flush(max(0.0, deadline - time.monotonic()))
        self._raise_refusal()
        self._control.report(Report(inputs_acked=self.acked))

    def _send(self, state: FeedState, count: int) -> None:
        topic = state.feed.topic
        inputs = [state.feed.make(state.rng, state.sent + i) for i in range(count)]
        state.sent += count
        sends = [[topic, None, _digest_of(record)] for record in inputs]
        batch = FeedBatch(self._journal.number(), [None] * count)
        self._journal.write(Invoked("send", 0, batch.op, sends=sends))
        for n, record in enumerate(inputs):
            name = value_name(self._journal.name, batch.op, n)
            headers = input_headers(name, record.timestamp_ms, record.headers)
            producer = self._producers[state.feed.partitioner]
            self._produce(producer, topic, record, headers, partial(self._on_delivery, batch, n, record))

    def _produce(
        self,
        producer: Producer,
        topic: str,
        record: FeedRecord,
        headers: Headers,
        on_delivery: Callable[[KafkaError | None, Message], None],
    ) -> None:
        deadline = time.monotonic() + FLUSH_TIMEOUT_S
        while True:
            try:
                producer.produce(
                    topic,
                    record.value,
                    record.key,
                    partition=librdkafka.ANY_PARTITION if record.partition is None else record.partition,
                    headers=headers,
                    on_delivery=on_delivery,
                    timestamp=record.timestamp_ms or 0,
                )
            except BufferError:
                if time.monotonic() > deadline:
                    raise
                producer.poll(TICK_S)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.MSG_SIZE_TOO_LARGE:
                    raise
                raise UsageError(
                    f"an input of {_size(record):,} bytes is too large for {topic}: the largest input that Fencepost "
                    f"sends has {LARGEST_INPUT_BYTES:,} bytes; make it smaller"
                ) from error
            else:
                return

    def _on_delivery(
        self, batch: FeedBatch, n: int, record: FeedRecord, error: KafkaError | None, message: Message
    ) -> None:
        batch.results += 1
        if error is None:
            batch.acks[n] = (cast(int, message.partition()), message.offset())
            self.acked += 1
        else:
            batch.error = librdkafka.describe_error(error)
            self._refusal = self._refusal or _refusal(cast(str, message.topic()), record, error)
        if batch.results == len(batch.acks):
            outcome = Outcome.INFO if batch.error else Outcome.OK
            self._journal.write(Completed(outcome, "send", 0, batch.op, acks=batch.acks, error=batch.error))

    def _raise_refusal(self) -> None:
        if self._refusal is not None:
            raise self._refusal


def _refusal(topic: str, record: FeedRecord, error: KafkaError) -> UsageError | None:
    """Return the error for an input that is not possible in its topic. None: the brokers failed for another reason.

    A fault can move the clock of a broker by an hour. So a time stamp is not possible only if the input gives it, and
    if it is far from the clock of the feeder.
    """
    if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
        size = _size(record)
        return UsageError(
            f"an input of {size:,} bytes, or its batch, is too large for {topic}: raise the setting max.message.bytes "
            f"of this topic, for example to {2 * size}"
        )
    gives_other_time = (
        record.timestamp_ms is not None and abs(record.timestamp_ms - 1000 * time.time()) > OTHER_TIME_MS
    )
    if error.code() == KafkaError.INVALID_TIMESTAMP and gives_other_time:
        return UsageError(
            f"the brokers refuse an input with timestamp_ms {record.timestamp_ms} in {topic}: give a time stamp that "
            "is not more than an hour in the future, or raise the setting message.timestamp.after.max.ms of this topic"
        )
    if error.code() == KafkaError.INVALID_RECORD:
        return UsageError(
            f"the brokers refuse an input of {topic}: give it a key, which a compacted topic requires, or remove "
            "cleanup.policy from the settings of this topic"
        )
    return None


def _size(record: FeedRecord) -> int:
    """Return the bytes of a record's key, value and headers."""
    contents = (record.key, record.value, *(content for _, content in record.headers))
    return sum(len(content or b"") for content in contents) + sum(len(name) for name, _ in record.headers)


def _digest_of(record: FeedRecord) -> int:
    headers = input_headers("", record.timestamp_ms, record.headers)
    return digest(record.key, record.value, headers, record.timestamp_ms)
