"""Bill purchases, and commit the offsets after each transaction instead of within it.

This looks right. But if the program dies between the two commits, while it tells the warehouse, another instance bills
the same purchases again.
"""

import argparse
import json
import signal
import sys
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

options = argparse.ArgumentParser()
options.add_argument("--brokers", required=True)
options.add_argument("--transactional-id", required=True)
options.add_argument("--prefix", default="", help="the prefix of its topics and its group, for a shared cluster")
options = options.parse_args()

CALL_S = 0.15
running = True


def stop(*_):
    global running
    running = False


signal.signal(signal.SIGTERM, stop)
signal.signal(signal.SIGINT, stop)

consumer = Consumer(
    {
        "bootstrap.servers": options.brokers,
        "group.id": options.prefix + "billing",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "session.timeout.ms": 6000,
    }
)
producer = Producer(
    {"bootstrap.servers": options.brokers, "transactional.id": options.transactional_id}
)
producer.init_transactions()
consumer.subscribe([options.prefix + "purchases"])


def rewind():
    """Seek back to the committed offsets, because the open transaction was aborted."""
    assigned = consumer.assignment()
    for position in consumer.committed(assigned, timeout=30) if assigned else []:
        consumer.seek(TopicPartition(position.topic, position.partition, max(position.offset, 0)))


def tell_the_warehouse():
    """Stand for a call of another service."""
    time.sleep(CALL_S)


while running:
    batch = [message for message in consumer.consume(100, timeout=0.5) if not message.error()]
    if not batch:
        continue
    try:
        producer.begin_transaction()
        for message in batch:
            purchase = json.loads(message.value())
            invoice = {"purchase_id": purchase["purchase_id"], "amount": purchase["pieces"] * purchase["price"]}
            shipment = {"purchase_id": purchase["purchase_id"], "pieces": purchase["pieces"]}
            producer.produce(options.prefix + "invoices", json.dumps(invoice), message.key())
            producer.produce(options.prefix + "shipments", json.dumps(shipment), message.key())
        producer.commit_transaction()
        tell_the_warehouse()
        consumer.commit(asynchronous=False)
    except KafkaException as error:
        kind = error.args[0]
        if not kind.txn_requires_abort():
            sys.exit(f"{options.transactional_id} stops: {kind.str()}")  # for example because it was fenced
        producer.abort_transaction()
        rewind()

consumer.close()
