"""aiokafka as a driver of `fencepost explore`: it answers each line of JSON with a line.

After a broker has refused records with an error that is not retriable, an abort succeeds, but the client has skipped
their sequence numbers. So the next transactions fail with OutOfOrderSequenceNumber until there is a new producer.
"""

import asyncio
import json
import sys

import aiokafka
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import InvalidProducerEpoch, KafkaError, OutOfOrderSequenceNumber, ProducerFenced
from aiokafka.structs import OffsetAndMetadata

CLOSE_S = 1.0
producer = None


async def init(command):
    global producer
    if producer is not None:
        await asyncio.wait([asyncio.create_task(producer.stop())], timeout=CLOSE_S)
    producer = AIOKafkaProducer(
        bootstrap_servers=command["bootstrap"],
        client_id=command["transactional_id"],
        transactional_id=command["transactional_id"],
        transaction_timeout_ms=command["transaction_timeout_ms"],
    )
    await producer.start()
    for topic in command["topics"]:
        await producer.partitions_for(topic)
    return {"version": aiokafka.__version__}


async def begin(command):
    await producer.begin_transaction()
    return {}


async def send(command):
    sent = [
        await producer.send(
            record["topic"],
            key=record["key"].encode(),
            value=record["value"].encode(),
            headers=[(name, text.encode()) for name, text in record["headers"]],
            partition=record["partition"],
        )
        for record in command["records"]
    ]
    return {"offsets": [metadata.offset for metadata in await asyncio.gather(*sent)]}


async def offsets(command):
    await producer.send_offsets_to_transaction(
        {
            TopicPartition(each["topic"], each["partition"]): OffsetAndMetadata(
                each["offset"], each["metadata"]
            )
            for each in command["offsets"]
        },
        command["group"],
    )
    return {}


async def commit(command):
    await producer.commit_transaction()
    return {}


async def abort(command):
    await producer.abort_transaction()
    return {}


def meaning(do, error):
    if isinstance(error, ProducerFenced | InvalidProducerEpoch):
        return "fenced"
    # The client does not tell whether another error is fatal. If an abort fails too, use a new producer.
    is_fatal = isinstance(error, OutOfOrderSequenceNumber) or do in ("init", "begin", "abort")
    return "fatal" if is_fatal else "abortable"


async def main():
    do = {"init": init, "begin": begin, "send": send, "offsets": offsets, "commit": commit, "abort": abort}
    while line := await asyncio.to_thread(sys.stdin.readline):
        command = json.loads(line)
        try:
            answer = {"ok": True, **await do[command["do"]](command)}
        except (KafkaError, AssertionError) as error:  # AssertionError: the client is in another state
            answer = {"error": repr(error), "meaning": meaning(command["do"], error)}
        print(json.dumps(answer), flush=True)


asyncio.run(main())
