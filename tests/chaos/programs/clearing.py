"""Clear payments: write a dead letter for a large payment, nothing for a payment of one piece, and a receipt otherwise.

`--mistake dead-letter-outside`: a second producer sends dead letters without a transaction.
`--mistake lets-through`: some payments of one piece get a receipt.
"""

import argparse
import json
import signal
from threading import Event

from confluent_kafka import Consumer, Producer, TopicPartition

parser = argparse.ArgumentParser()
parser.add_argument("--brokers", required=True)
parser.add_argument("--transactional-id", required=True)
parser.add_argument("--mistake", default="none", choices=("none", "dead-letter-outside", "lets-through"))
options = parser.parse_args()

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
    offsets = [TopicPartition(*partition, offset) for partition, offset in positions.items()]
    producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
    producer.commit_transaction()

consumer.close()
