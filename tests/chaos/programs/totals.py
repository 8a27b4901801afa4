"""Keeps a total by account in memory, and writes the last one of each account in a transaction with the offsets.

With `--restore` it reads its totals back at its start; without it, it begins at nothing, which is the bug.
"""

import argparse
import json
import signal
from threading import Event

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

options = argparse.ArgumentParser()
options.add_argument("--brokers", required=True)
options.add_argument("--restore", action="store_true")
options.add_argument(
    "--offsets-after", action="store_true", help="commit them outside the transaction: a bug, too"
)
options = options.parse_args()
READ = {
    "bootstrap.servers": options.brokers,
    "group.id": "totals",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    "session.timeout.ms": 6000,
}
over = Event()
signal.signal(signal.SIGTERM, lambda *_: over.set())


def restored():
    """The last total of each account that is committed."""
    reader, totals = Consumer(READ | {"enable.partition.eof": True, "group.id": "restores"}), {}
    places = [
        TopicPartition("totals", n, OFFSET_BEGINNING)
        for n in reader.list_topics("totals").topics["totals"].partitions
    ]
    reader.assign(places)
    left = len(places)
    while left:
        message = reader.poll(1.0)
        if message is not None and message.error():
            left -= 1
        elif message is not None:
            totals[message.key()] = json.loads(message.value())["total"]
    reader.close()
    return totals


producer = Producer({"bootstrap.servers": options.brokers, "transactional.id": "totals-1"})
producer.init_transactions()
totals = restored() if options.restore else {}
consumer = Consumer(READ)
consumer.subscribe(["payments"])
while not over.is_set():
    batch = [message for message in consumer.consume(50, timeout=0.5) if not message.error()]
    if not batch:
        continue
    producer.begin_transaction()
    for message in batch:
        totals[message.key()] = totals.get(message.key(), 0) + int(message.value())
    for account in {message.key() for message in batch}:
        producer.produce("totals", json.dumps({"total": totals[account]}), account)
    offsets = {(message.topic(), message.partition()): message.offset() + 1 for message in batch}
    if options.offsets_after:
        producer.commit_transaction()
        consumer.commit(asynchronous=False)
        continue
    producer.send_offsets_to_transaction(
        [TopicPartition(*place, offset) for place, offset in offsets.items()],
        consumer.consumer_group_metadata(),
    )
    producer.commit_transaction()
consumer.close()
