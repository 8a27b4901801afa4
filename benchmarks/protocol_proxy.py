"""Measure what the proxies cost: `python -m benchmarks.protocol_proxy [MB]`. It prints ratios, and asserts nothing.

A cluster of one broker is reached in three ways: directly, through toxiproxy, and through toxiproxy and the protocol
proxy. On each way a producer writes and a consumer reads MB megabytes, and a producer commits transactions of one
record. The ways take turns, so that the machine is the same for all of them.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

from confluent_kafka import Consumer, Producer, TopicPartition

from harness.cluster import ClusterSpec
from harness.cluster.local import LocalCluster
from harness.common.errors import WaitTimeout
from harness.environment.cache import cache_folder
from harness.environment.prepare import prepare
from harness.environment.resources import PortBlock
from harness.model.pipeline import TopicSpec
from harness.processes.spawn import Supervisor

ROUNDS = 5
TRANSACTIONS = 300
WARM_TRANSACTIONS = 30
RECORD_BYTES = 10_000
TIMEOUT_S = 60.0
GOAL_MB_PER_S, GOAL_MORE_MS = 50.0, 1.0
DIRECT, TOXIPROXY, BOTH = "direct", "toxiproxy", "both proxies"
TOPIC = "measured"


def main() -> None:
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    spec = ClusterSpec(brokers=1, endpoints=("plain", "decoded"), decoded=("client:decoded",))
    ready = prepare(spec.kafka, spec.java, spec.toxiproxy, cache_folder(), print)
    with (
        tempfile.TemporaryDirectory(prefix="fencepost-bench-") as folder,
        Supervisor() as supervisor,
        PortBlock(ready.cache) as ports,
        LocalCluster(spec, Path(folder), ready, supervisor, ports.take) as cluster,
    ):
        ways = {
            DIRECT: cluster.bootstrap,
            TOXIPROXY: cluster.bootstrap_for("plain"),
            BOTH: cluster.bootstrap_for("decoded"),
        }
        cluster.create_topics([TopicSpec(TOPIC, 1, replication=1)], TIMEOUT_S)
        print_throughput(ways, megabytes)
        print_latency(ways)


def print_throughput(ways: Mapping[str, str], megabytes: int) -> None:
    """Print the megabytes a second of a producer and of a consumer on each way."""
    written: dict[str, list[float]] = {way: [] for way in ways}
    read: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(ROUNDS):
        for way, bootstrap in ways.items():
            begin, seconds = write(bootstrap, megabytes)
            written[way].append(megabytes / seconds)
            read[way].append(megabytes / consume(bootstrap, begin, megabytes))
    for name, rates in (("written", written), ("read", read)):
        for way in ways:
            share = statistics.median(rates[way]) / statistics.median(rates[DIRECT])
            print(f"{name}, {way}: {spread(rates[way], 0)} MB/s, {share:.2f} of direct", flush=True)
        met = statistics.median(rates[BOTH]) >= GOAL_MB_PER_S
        print(f"{name}, goal {GOAL_MB_PER_S:g} MB/s: {'met' if met else 'missed'}", flush=True)


def print_latency(ways: Mapping[str, str]) -> None:
    """Print the median and the 99th percentile of a transaction with one record on each way."""
    producers = {way: transactional(bootstrap) for way, bootstrap in ways.items()}
    taken_ms: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(WARM_TRANSACTIONS + TRANSACTIONS):
        for way, producer in producers.items():
            began_s = time.perf_counter()
            producer.begin_transaction()
            producer.produce(TOPIC, b"one record")
            producer.commit_transaction(TIMEOUT_S)
            if number >= WARM_TRANSACTIONS:
                taken_ms[way].append((time.perf_counter() - began_s) * 1000)
    median = {way: statistics.median(values) for way, values in taken_ms.items()}
    for way, values in taken_ms.items():
        p99 = statistics.quantiles(values, n=100)[98]
        more = f"{median[way] - median[DIRECT]:+.2f} ms, {median[way] / median[DIRECT]:.2f} of direct"
        print(f"transaction, {way}: p50 {median[way]:.2f} ms ({more}), p99 {p99:.2f} ms", flush=True)
    more_ms = median[BOTH] - median[TOXIPROXY]
    met = "met" if more_ms <= GOAL_MORE_MS else "missed"
    print(
        f"the protocol proxy adds {more_ms:.2f} ms at the median; goal {GOAL_MORE_MS:g} ms: {met}", flush=True
    )


def write(bootstrap: str, megabytes: int) -> tuple[int, float]:
    """Write records. Return the offset of the first one, and the seconds from the first to the last acknowledgement."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "linger.ms": 5,
            "batch.size": 1_000_000,
            "queue.buffering.max.kbytes": 200_000,
        }
    )
    offsets: list[int] = []

    def delivered(error: object, message: object) -> None:
        if error is not None:
            raise RuntimeError(f"a record was not written: {error}")
        offsets.append(message.offset())  # type: ignore[attr-defined]

    value = bytes(RECORD_BYTES)
    count = megabytes * 1_000_000 // RECORD_BYTES
    began_s = time.perf_counter()
    for _ in range(count):
        while True:
            try:
                producer.produce(TOPIC, value, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.01)
        producer.poll(0)
    producer.flush(TIMEOUT_S)
    if len(offsets) < count:
        raise WaitTimeout("all records to be acknowledged", TIMEOUT_S, f"{len(offsets)} of {count} were")
    return min(offsets), time.perf_counter() - began_s


def consume(bootstrap: str, begin: int, megabytes: int) -> float:
    """Read as many records from this offset. Return the seconds from the first record to the last."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": uuid4().hex,
            "enable.auto.commit": False,
            "check.crcs": False,
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, begin)])
    missing = megabytes * 1_000_000 // RECORD_BYTES
    began_s: float | None = None
    while missing:
        batch = consumer.consume(min(missing, 1000), TIMEOUT_S)
        if not batch:
            raise WaitTimeout("a record", TIMEOUT_S, f"{missing} records are missing")
        began_s = began_s or time.perf_counter()
        missing -= len(batch)
    consumer.close()
    assert began_s is not None
    return time.perf_counter() - began_s


def transactional(bootstrap: str) -> Producer:
    """Return a transactional producer with a new transactional id."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": uuid4().hex, "linger.ms": 0})
    producer.init_transactions(TIMEOUT_S)
    return producer


def spread(values: list[float], digits: int) -> str:
    """Return minimum, median and maximum as text."""
    return " / ".join(
        f"{value:.{digits}f}" for value in (min(values), statistics.median(values), max(values))
    )


if __name__ == "__main__":
    main()
