"""Where logs begin by now: what stood before is gone."""

import time
from collections.abc import Sequence

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition

from harness.model.pipeline import TopicPartition

LEAST_S = 0.1
"""For each partition that is asked for alone, however little time is left."""


def first_offsets(
    consumer: Consumer, places: Sequence[TopicPartition], timeout_s: float
) -> dict[TopicPartition, int]:
    """The first offset of each partition; without those of which no leader has answered in time.

    All are asked for together, which takes a hundredth of a second, where one by one they take a twentieth each. But
    one partition without a leader leaves all without an answer: then each is asked for, in the half of the time that is
    left.
    """
    deadline = time.monotonic() + timeout_s
    try:
        return _asked(consumer, places, timeout_s / 2)
    except KafkaException:
        found: dict[TopicPartition, int] = {}
        for left, place in zip(range(len(places), 0, -1), places, strict=True):
            try:
                found |= _asked(consumer, [place], max(LEAST_S, (deadline - time.monotonic()) / left))
            except KafkaException:
                continue  # it is left out, and whoever needs it says that it is missing
        return found


def _asked(
    consumer: Consumer, places: Sequence[TopicPartition], timeout_s: float
) -> dict[TopicPartition, int]:
    asked = [KafkaTopicPartition(*place, OFFSET_BEGINNING) for place in places]
    answers = consumer.offsets_for_times(asked, timeout=timeout_s)
    return {
        (answer.topic, answer.partition): answer.offset
        for answer in answers
        if answer.error is None and answer.offset >= 0
    }
