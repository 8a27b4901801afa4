"""The feeder: writes the inputs of a run at a rate, idempotently.

What stands in the input log at the end is the input, whatever the feeder was told.
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
    """One feed under way."""

    feed: Feed
    rate: float  # inputs a second
    rng: Random
    sent: int = 0


@dataclass
class FeedBatch:
    """The inputs of one tick: one operation, complete when each was answered."""

    op: int
    acks: list[Ack | None]
    answered: int = 0
    error: str | None = None


class Feeder:
    """Feeds its topics until it is told to stop."""

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
        self._lines = [
            FeedState(feed, rate * feed.share / shares, Random(f"{seed}/inputs" + (f"/{n}" if n else "")))
            for n, feed in enumerate(feeds)
        ]
        self._journal = journal
        self._control = control
        self._producer = Producer(librdkafka.idempotent_producer(settings))
        self.acked = 0

    def run(self) -> None:
        """Once told to go, send what is due, tick by tick, until told to stop; then wait for the answers."""
        self._control.report(Report(ready=True))
        self._control.await_go()
        begun = time.monotonic()
        while not self._control.stopping:
            for line in self._lines:
                due = int((time.monotonic() - begun) * line.rate) - line.sent
                if line.feed.count is not None:
                    due = min(due, line.feed.count - line.sent)
                if due > 0:
                    self._send(line, due)
            self._producer.poll(TICK_S)
            self._control.listen()
            self._control.report(Report(fed=self.acked))
        self._producer.flush(FLUSH_TIMEOUT_S)
        self._control.report(Report(fed=self.acked))

    def _send(self, line: FeedState, count: int) -> None:
        topic = line.feed.topic
        inputs = [line.feed.make(line.rng, line.sent + i) for i in range(count)]
        line.sent += count
        sends = [[topic, None, _digest_of(fed)] for fed in inputs]
        chunk = FeedBatch(self._journal.number(), [None] * count)
        self._journal.write(Invoked("send", 0, chunk.op, sends=sends))
        for n, fed in enumerate(inputs):
            name = value_name(self._journal.name, chunk.op, n)
            headers = input_headers(name, fed.timestamp_ms, fed.headers)
            self._produce(topic, fed, headers, partial(self._answered, chunk, n))

    def _produce(
        self,
        topic: str,
        fed: FeedRecord,
        headers: Headers,
        answered: Callable[[KafkaError | None, Message], None],
    ) -> None:
        deadline = time.monotonic() + FLUSH_TIMEOUT_S
        while True:
            try:
                self._producer.produce(
                    topic,
                    fed.value,
                    fed.key,
                    headers=headers,
                    on_delivery=answered,
                    timestamp=fed.timestamp_ms or 0,
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

    def _answered(self, chunk: FeedBatch, n: int, error: KafkaError | None, message: Message) -> None:
        chunk.answered += 1
        if error is None:
            chunk.acks[n] = (cast(int, message.partition()), message.offset())
            self.acked += 1
        else:
            chunk.error = librdkafka.describe_error(error)
        if chunk.answered == len(chunk.acks):
            outcome = Outcome.INFO if chunk.error else Outcome.OK
            self._journal.write(Completed(outcome, "send", 0, chunk.op, acks=chunk.acks, error=chunk.error))


def _digest_of(fed: FeedRecord) -> int:
    """Of the record that it must become."""
    return digest(fed.key, fed.value, input_headers("", fed.timestamp_ms, fed.headers), fed.timestamp_ms)
