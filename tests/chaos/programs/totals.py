"""Keep a total for each account in memory, and write the last totals in a transaction with the offsets.

With `--restore` it reads its totals from the topic at its start. Without it, it begins at zero, which is a bug.
"""

import argparse
import json
import signal
from threading import Event

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

parser = argparse.ArgumentParser()
parser.add_argument("--brokers", required=True)
parser.add_argument("--restore", action="store_true")
parser.add_argument(
    "--offsets-after", action="store_true", help="commit offsets outside the transaction, which is a bug"
)
options = parser.parse_args()
READ = {
    "bootstrap.servers": options.brokers,
    "group.id": "totals",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    "session.timeout.ms": 6000,
}
stopping = Event()
signal.signal(signal.SIGTERM, lambda *_: stopping.set())


def read_totals():
    """Return the last committed total of each account."""
    reader, totals = Consumer(READ | {"enable.partition.eof": True, "group.id": "restores"}), {}
    partitions = [
        TopicPartition("totals", n, OFFSET_BEGINNING)
        for n in reader.list_topics("totals").topics["totals"].partitions
    ]
    reader.assign(partitions)
    unread = len(partitions)
    while unread:
        message = reader.poll(1.0)
        if message is not None and message.error():
            unread -= 1
        elif message is not None:
            totals[message.key()] = json.loads(message.value())["total"]
    reader.close()
    return totals


producer = Producer({"bootstrap.servers": options.brokers, "transactional.id": "totals-1"})
producer.init_transactions()
totals = read_totals() if options.restore else {}
consumer = Consumer(READ)
consumer.subscribe(["payments"])
while not stopping.is_set():
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
        [TopicPartition(*partition, offset) for partition, offset in offsets.items()],
        consumer.consumer_group_metadata(),
    )
    producer.commit_transaction()
consumer.close()
