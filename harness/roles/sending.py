"""Send the records of an operation through a client, and collect their acknowledgements."""

import time
from functools import partial

from harness.clients.interface import ClientError, ProducerClient
from harness.record.events import REFUSED, Ack
from harness.record.naming import Headers

FLUSH_TIMEOUT_S = 60.0


class DeliveryFailed(Exception):
    """A record was not acknowledged, or the client's queue remained full."""


class RecordSender:
    """Sends the records of one operation.

    `acks[n]` is the acknowledgement of the n-th record, `REFUSED` if the client refused the record, or None.

    Args:
        producer: the client.
        count: the number of records of the operation.
        skips_refused_records: skip a record that the client refuses, instead of raising its error.
    """

    def __init__(self, producer: ProducerClient, count: int, *, skips_refused_records: bool = False) -> None:
        self._producer = producer
        self._skips_refused_records = skips_refused_records
        self._queued: list[int] = []  # numbers of the records that were passed to the client
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
        """Send the n-th record. Wait while the client's queue is full.

        Raises `ClientError`, and `DeliveryFailed` if the queue remains full.
        """
        deadline = time.monotonic() + FLUSH_TIMEOUT_S
        self._queued.append(n)
        try:
            on_delivery = partial(self._on_delivery, n)
            while not self._producer.send(
                topic, key, value, headers, on_delivery, timestamp_ms, partition=partition
            ):
                if time.monotonic() > deadline:
                    raise DeliveryFailed(f"the producer's queue remained full for {FLUSH_TIMEOUT_S:g} s")
                self._producer.poll(0.05)
        except ClientError:
            if not self._skips_refused_records:
                raise
            self.acks[n] = REFUSED

    def flush(self) -> None:
        """Wait until all records are acknowledged. Raises `DeliveryFailed`."""
        remaining = self._producer.flush(FLUSH_TIMEOUT_S)
        missing = [self.acks[n] for n in self._queued].count(None)
        if missing:
            raise DeliveryFailed(
                f"{missing} of {len(self._queued)} records not acknowledged, {remaining} still queued"
            )

    def _on_delivery(self, n: int, partition: int | None, offset: int | None, error: str | None) -> None:
        if error is None and partition is not None:
            self.acks[n] = (partition, offset)
