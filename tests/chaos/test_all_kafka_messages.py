"""The protocol proxy reads and writes the messages of every pinned version of Kafka as Kafka itself does."""

import pytest

from harness.environment.kafka import versions
from tests.support.kafka_messages import compare_with_kafka


@pytest.mark.parametrize("version", versions()[1:-1])
def test_kafkas_own_classes_read_and_write_the_same_bytes(version: str) -> None:
    compare_with_kafka(version)
