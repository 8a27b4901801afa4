"""Write the sentinels at the ends of partitions."""

from collections.abc import Sequence

from confluent_kafka import KafkaError, Producer

from harness.clients import librdkafka
from harness.clients.interface import ProducerSettings
from harness.common.errors import WaitTimeout, in_words
from harness.model.pipeline import TopicPartition
from harness.model.vocabulary import SENTINEL_VALUE, VALUE_HEADER
from harness.record.naming import Headers


def write_sentinels(bootstrap: str, topic_partitions: Sequence[TopicPartition], timeout_s: float) -> None:
    """Write a sentinel at the end of each partition. Raises `WaitTimeout`."""
    producer = Producer(librdkafka.idempotent_producer(ProducerSettings(bootstrap)))
    failed: list[str] = []

    def on_delivery(error: KafkaError | None, _: object) -> None:
        if error is not None:
            failed.append(librdkafka.describe_error(error))

    for topic, partition in topic_partitions:
        name = f"{SENTINEL_VALUE}:{topic}/{partition}"
        headers: Headers = [(VALUE_HEADER, name.encode())]
        producer.produce(topic, b"", partition=partition, headers=headers, on_delivery=on_delivery)
    remaining = producer.flush(timeout_s)
    if remaining or failed:
        raise WaitTimeout(
            "all sentinels to be written",
            timeout_s,
            f"{remaining} sentinels are still queued, and {len(failed)} failed; first error: {in_words(failed[:1])}",
        )
