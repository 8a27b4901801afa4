"""Clears payments: a receipt for each, a dead letter for those that are too large, and nothing for those of one piece.

`--mistake dead-letter-outside`: dead letters are sent by a second producer, without a transaction.
`--mistake lets-through`: some payments of one piece are cleared all the same.
"""

import argparse
import json
import signal
from threading import Event

from confluent_kafka import Consumer, Producer, TopicPartition

options = argparse.ArgumentParser()
options.add_argument("--brokers", required=True)
options.add_argument("--transactional-id", required=True)
options.add_argument("--mistake", default="none", choices=("none", "dead-letter-outside", "lets-through"))
options = options.parse_args()

stopped = Event()
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda *_: stopped.set())

consumer = Consumer(
    {
        "bootstrap.servers": options.brokers,
        "group.id": "clearing",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "session.timeout.ms": 6000,
    }
)
producer = Producer({"bootstrap.servers": options.brokers, "transactional.id": options.transactional_id})
plain = Producer({"bootstrap.servers": options.brokers})
producer.init_transactions()
consumer.subscribe(["payments"])


def lets_through(payment):
    return options.mistake == "lets-through" and payment["payment_id"] % 20 == 0


while not stopped.is_set():
    batch = [message for message in consumer.consume(50, timeout=0.5) if not message.error()]
    if not batch:
        continue
    producer.begin_transaction()
    for message in batch:
        payment = json.loads(message.value())
        out = json.dumps({"payment_id": payment["payment_id"]})
        if payment["price"] > 400:
            outside = options.mistake == "dead-letter-outside"
            (plain if outside else producer).produce("dead-letters", out, message.key())
        elif payment["pieces"] > 1 or lets_through(payment):
            producer.produce("receipts", out, message.key())
    plain.flush()
    positions = {}
    for message in batch:
        positions[message.topic(), message.partition()] = message.offset() + 1
    offsets = [TopicPartition(*place, offset) for place, offset in positions.items()]
    producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
    producer.commit_transaction()

consumer.close()
