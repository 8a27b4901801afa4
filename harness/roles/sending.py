"""Records on their way: handed to a client one by one, each acknowledged in its place."""

import time
from functools import partial

from harness.clients.interface import ClientError, ProducerClient
from harness.record.events import REFUSED, Ack
from harness.record.naming import Headers

FLUSH_TIMEOUT_S = 60.0


class DeliveryFailed(Exception):
    """A record was not acknowledged."""


class RecordSender:
    """The records of one operation, and their acknowledgements."""

    def __init__(self, producer: ProducerClient, count: int, *, lenient: bool = False) -> None:
        self._producer = producer
        self._lenient = lenient  # what the client itself refuses is left out
        self._handed: list[int] = []  # what was given to the client so far
        self.acks: list[Ack | None] = [None] * count

    def send(
        self,
        n: int,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        timestamp_ms: int | None = None,
        *,
        partition: int | None = None,
    ) -> None:
        """Hand the n-th record to the client; waits while its queue is full."""
        deadline = time.monotonic() + FLUSH_TIMEOUT_S
        self._handed.append(n)
        try:
            told = partial(self._delivered, n)
            while not self._producer.send(
                topic, key, value, headers, told, timestamp_ms, partition=partition
            ):
                if time.monotonic() > deadline:
                    raise DeliveryFailed(f"the producer's queue stayed full for {FLUSH_TIMEOUT_S:g} s")
                self._producer.poll(0.05)
        except ClientError:
            if not self._lenient:
                raise
            self.acks[n] = REFUSED

    def flush(self) -> None:
        """Wait for the acknowledgement of all that was handed over; raises DeliveryFailed."""
        left = self._producer.flush(FLUSH_TIMEOUT_S)
        missing = [self.acks[n] for n in self._handed].count(None)
        if missing:
            raise DeliveryFailed(
                f"{missing} of {len(self._handed)} records not acknowledged, {left} still queued"
            )

    def _delivered(self, n: int, partition: int | None, offset: int | None, error: str | None) -> None:
        if error is None and partition is not None:
            self.acks[n] = (partition, offset)
