"""The feeder: writes the inputs of a run at a constant rate, idempotently.

Every record in an input topic at the end of the run is an input, even if the feeder got no acknowledgement for it.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import cast

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from harness.clients import librdkafka
from harness.clients.interface import ProducerSettings
from harness.common.errors import UsageError
from harness.model.expectation import Feed, FeedRecord
from harness.model.vocabulary import Outcome
from harness.processes.control_line import Report
from harness.record.events import Ack, Completed, Invoked
from harness.record.journal import Journal
from harness.record.naming import Headers, digest, input_headers, value_name
from harness.roles.control import Control

TICK_S = 0.05
FLUSH_TIMEOUT_S = 60.0


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
        self._producer = Producer(librdkafka.idempotent_producer(settings))
        self.acked = 0

    def run(self) -> None:
        """Wait until the run says go. Send inputs at every tick until it says stop. Then wait for their results."""
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
            self._producer.poll(TICK_S)
            self._control.listen()
            self._control.report(Report(inputs_acked=self.acked))
        self._producer.flush(FLUSH_TIMEOUT_S)
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
            self._produce(topic, record, headers, partial(self._on_delivery, batch, n))

    def _produce(
        self,
        topic: str,
        record: FeedRecord,
        headers: Headers,
        on_delivery: Callable[[KafkaError | None, Message], None],
    ) -> None:
        deadline = time.monotonic() + FLUSH_TIMEOUT_S
        while True:
            try:
                self._producer.produce(
                    topic,
                    record.value,
                    record.key,
                    headers=headers,
                    on_delivery=on_delivery,
                    timestamp=record.timestamp_ms or 0,
                )
            except BufferError:
                if time.monotonic() > deadline:
                    raise
                self._producer.poll(TICK_S)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.MSG_SIZE_TOO_LARGE:
                    raise
                raise UsageError(
                    f"an input is too large for {topic}: {librdkafka.describe_error(error.args[0])}"
                ) from error
            else:
                return

    def _on_delivery(self, batch: FeedBatch, n: int, error: KafkaError | None, message: Message) -> None:
        batch.results += 1
        if error is None:
            batch.acks[n] = (cast(int, message.partition()), message.offset())
            self.acked += 1
        else:
            batch.error = librdkafka.describe_error(error)
        if batch.results == len(batch.acks):
            outcome = Outcome.INFO if batch.error else Outcome.OK
            self._journal.write(Completed(outcome, "send", 0, batch.op, acks=batch.acks, error=batch.error))


def _digest_of(record: FeedRecord) -> int:
    headers = input_headers("", record.timestamp_ms, record.headers)
    return digest(record.key, record.value, headers, record.timestamp_ms)
