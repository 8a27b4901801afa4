"""kafka-python as a driver of `fencepost explore`: it answers each line of JSON with a line."""

import json
import sys

import kafka
from kafka import KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.errors import (
    IllegalStateError,
    InvalidProducerEpochError,
    KafkaError,
    KafkaTimeoutError,
    ProducerFencedError,
)

producer = None


def init(command):
    global producer
    if producer is not None:
        producer.close(timeout=0)
    producer = KafkaProducer(
        bootstrap_servers=command["bootstrap"],
        transactional_id=command["transactional_id"],
        transaction_timeout_ms=command["transaction_timeout_ms"],
        max_block_ms=command["timeout_ms"],
        linger_ms=0,
    )
    for topic in command["topics"]:
        producer.partitions_for(topic)
    producer.init_transactions()
    return {"version": kafka.__version__}


def send(command):
    sent = [
        producer.send(
            record["topic"],
            key=record["key"].encode(),
            value=record["value"].encode(),
            headers=[(name, text.encode()) for name, text in record["headers"]],
            partition=record["partition"],
        )
        for record in command["records"]
    ]
    return {"offsets": [each.get(timeout=command["timeout_ms"] / 1000).offset for each in sent]}


def offsets(command):
    producer.send_offsets_to_transaction(
        {
            TopicPartition(each["topic"], each["partition"]): OffsetAndMetadata(
                each["offset"], each["metadata"], -1
            )
            for each in command["offsets"]
        },
        command["group"],
    )
    return {}


def carry_out(command):
    do = command["do"]
    if do in DO:
        return DO[do](command)
    {
        "begin": producer.begin_transaction,
        "commit": producer.commit_transaction,
        "abort": producer.abort_transaction,
    }[do]()
    return {}


def meaning(do, error):
    if isinstance(error, ProducerFencedError | InvalidProducerEpochError):
        return "fenced"
    if isinstance(error, KafkaTimeoutError) and do in ("init", "commit", "abort"):
        return "retriable"
    if do in ("init", "begin", "abort") or isinstance(error, IllegalStateError):
        return "fatal"
    return "abortable"


DO = {"init": init, "send": send, "offsets": offsets}
for line in sys.stdin:
    command = json.loads(line)
    try:
        answer = {"ok": True, **carry_out(command)}
    except KafkaError as error:
        answer = {"error": repr(error), "meaning": meaning(command["do"], error)}
    print(json.dumps(answer), flush=True)
