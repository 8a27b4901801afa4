"""Show where librdkafka starts a partition whose committed offset is unstable, if the group rebalances again.

    pip install confluent-kafka
    python librdkafka-unstable-start.py BOOTSTRAP [ASSIGNOR|consumer] [--debug]

A topic has two partitions with ten records each. A transaction has committed offset 5 of both for the group, and an
open transaction has written offset 7. A member joins, and then another one. Each partition must start at 5 or 7.

With --debug, librdkafka writes its log to standard error.
"""

import sys
import threading
import time
import uuid
from collections.abc import Callable
from typing import ClassVar

import confluent_kafka
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

servers = {"bootstrap.servers": sys.argv[1]}
assignor = sys.argv[2] if len(sys.argv) > 2 else "range"
name = f"unstable-{uuid.uuid4().hex[:6]}"  # of the topic, the group and the transactional id


def await_true(condition: Callable[[], bool], timeout_s: float = 30) -> bool:
    end = time.monotonic() + timeout_s
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


class Member(threading.Thread):
    """A consumer that leaves everything to the library."""

    first_offsets: ClassVar[dict[int, int]] = {}  # by partition, of all members
    ending = threading.Event()

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.assignments = 0
        self.start()

    def on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.assignments += 1

    def run(self) -> None:
        kind = (
            {"group.protocol": "consumer"}
            if assignor == "consumer"
            else {"partition.assignment.strategy": assignor}
        )
        settings = {"group.id": name, "auto.offset.reset": "earliest", "enable.auto.commit": False, **kind}
        debug = {"debug": "cgrp,topic"} if "--debug" in sys.argv else {}
        consumer = Consumer({**servers, **settings, **debug, "client.id": f"member-{self.number}"})
        consumer.subscribe([name], on_assign=self.on_assign)
        while not self.ending.is_set():
            record = consumer.poll(0.1)
            if record is None or record.error() or record.partition() in self.first_offsets:
                continue
            self.first_offsets[record.partition()] = record.offset()
            print(f"member {self.number} starts partition {record.partition()} at offset {record.offset()}")
        consumer.close()


admin = AdminClient(servers)
admin.create_topics([NewTopic(name, 2, 1)])[name].result(30)
plain = Producer(servers)
for n in range(20):
    plain.produce(name, str(n), partition=n % 2)
plain.flush(30)

owner = Producer({**servers, "transactional.id": name})
owner.init_transactions(30)
group = Consumer({**servers, "group.id": name}).consumer_group_metadata()
for offset in (5, 7):
    owner.begin_transaction()
    owner.send_offsets_to_transaction([TopicPartition(name, n, offset) for n in (0, 1)], group, 30)
    if offset == 5:
        owner.commit_transaction(30)

first = Member(1)
assert await_true(lambda: first.assignments > 0), "the first member got no partitions"
second = Member(2)
assert await_true(lambda: first.assignments > 1 and second.assignments > 0), "the group did not rebalance"
await_true(lambda: bool(Member.first_offsets), 10)
print(f"the transaction is still open; read so far: {Member.first_offsets or 'nothing'}")
owner.commit_transaction(30)
assert await_true(lambda: len(Member.first_offsets) == 2), f"partitions that were read: {[*Member.first_offsets]}"
Member.ending.set()
first.join()
second.join()
wrong = min(Member.first_offsets.values()) < 5
print(f"librdkafka {confluent_kafka.libversion()[0]}, {assignor}: {'WRONG' if wrong else 'right'}")
sys.exit(wrong)
