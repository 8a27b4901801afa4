"""The feeder: writes the inputs of a run at a rate, idempotently.

What stands in the input log at the end is the input, whatever the feeder was told.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import cast

from confluent_kafka import KafkaError, Message, Producer

from harness.clients import librdkafka
from harness.clients.control import Control
from harness.history import VALUE_HEADER, Outcome
from harness.record.journal import Journal
from harness.record.naming import Headers, digest, value_name

TICK_S = 0.05
FLUSH_TIMEOUT_S = 60.0


@dataclass
class Chunk:
    """The inputs of one tick: one operation, complete when each was answered."""

    op: int
    acks: list[tuple[int, int] | None]
    answered: int = 0
    error: str | None = None


class Feeder:
    """Feeds one topic until it is told to stop."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        make_input: Callable[[Random, int], tuple[bytes, bytes]],
        rate: float,
        seed: int,
        journal: Journal,
        control: Control,
    ) -> None:
        self._topic = topic
        self._make_input = make_input
        self._rate = rate
        self._rng = Random(f"{seed}/inputs")
        self._journal = journal
        self._control = control
        self._producer = Producer(librdkafka.idempotent_producer(bootstrap))
        self.sent = 0
        self.acked = 0

    def run(self) -> None:
        """Send what is due, tick by tick, until told to stop; then wait for the answers."""
        self._control.tell(ready=True)
        begun = time.monotonic()
        while not self._control.stopping:
            due = int((time.monotonic() - begun) * self._rate) - self.sent
            if due > 0:
                self._send(due)
            self._producer.poll(TICK_S)
            self._control.listen()
            self._control.tell(fed=self.acked)
        self._producer.flush(FLUSH_TIMEOUT_S)
        self._control.tell(fed=self.acked)

    def _send(self, count: int) -> None:
        inputs = [self._make_input(self._rng, self.sent + i) for i in range(count)]
        self.sent += count
        sends = [[self._topic, None, digest(key, value, ())] for key, value in inputs]
        chunk = Chunk(self._journal.begin("send", 0, {"sends": sends}), [None] * count)
        for n, (key, value) in enumerate(inputs):
            headers: Headers = [(VALUE_HEADER, value_name(self._journal.name, chunk.op, n).encode())]
            self._produce(key, value, headers, partial(self._answered, chunk, n))

    def _produce(
        self,
        key: bytes,
        value: bytes,
        headers: Headers,
        answered: Callable[[KafkaError | None, Message], None],
    ) -> None:
        deadline = time.monotonic() + FLUSH_TIMEOUT_S
        while True:
            try:
                self._producer.produce(self._topic, value, key, headers=headers, on_delivery=answered)
            except BufferError:
                if time.monotonic() > deadline:
                    raise
                self._producer.poll(TICK_S)
            else:
                return

    def _answered(self, chunk: Chunk, n: int, error: KafkaError | None, message: Message) -> None:
        chunk.answered += 1
        if error is None:
            chunk.acks[n] = (cast(int, message.partition()), cast(int, message.offset()))
            self.acked += 1
        else:
            chunk.error = librdkafka.words(error)
        if chunk.answered == len(chunk.acks):
            outcome = Outcome.INFO if chunk.error else Outcome.OK
            event = {"f": "send", "process": 0, "op": chunk.op, "acks": chunk.acks}
            self._journal.write(outcome, event | ({"error": chunk.error} if chunk.error else {}))
