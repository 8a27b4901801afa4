"""Show that Kafka completes a transaction without the marker of a partition that has no leader.

    pip install confluent-kafka
    python unmarked-partition.py LIBS          # LIBS is the folder libs of a Kafka distribution

Three brokers start on this machine. A transaction writes to a/0 (three replicas) and b/0 (one replica). The broker of
b/0 is paused by SIGSTOP, so the controller fences it. The producer commits, and the broker is resumed. Then b/0 must have
the commit marker of the transaction.

The exit status is 1 if b/0 has no marker.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

LIBS = Path(sys.argv[1])
PORTS = {1: 29192, 2: 29292, 3: 29392}
VOTERS = ",".join(f"{broker}@localhost:{port + 1}" for broker, port in PORTS.items())
BOOTSTRAP = ",".join(f"localhost:{port}" for port in PORTS.values())
SERVERS = {"bootstrap.servers": BOOTSTRAP, "log_level": 2}
CLUSTER = "MkU3OEVBNTcwNTJENDM2Qk"
TRANSACTIONAL_ID = "t"
COORDINATED_BY = ord("t") % 50
"""The partition of __transaction_state of the id: Java's hash code of a string of one character is that character."""


def await_true(condition: Callable[[], object], awaited: str, timeout_s: float = 60) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"waited {timeout_s:g} s for {awaited}")
        time.sleep(0.1)


def java(main_class: str, *words: object) -> list[str]:
    return ["java", "-Xmx256m", "-cp", f"{LIBS}/*", main_class, *map(str, words)]


def start_broker(folder: Path, broker: int, port: int) -> subprocess.Popen[bytes]:
    properties = folder / f"{broker}.properties"
    properties.write_text(
        f"node.id={broker}\nprocess.roles=broker,controller\nlog.dirs={folder}/data-{broker}\n"
        f"controller.quorum.voters={VOTERS}\ncontroller.listener.names=CONTROLLER\n"
        f"listeners=PLAINTEXT://localhost:{port},CONTROLLER://localhost:{port + 1}\n"
        f"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n"
        "offsets.topic.replication.factor=3\ntransaction.state.log.replication.factor=3\n"
        "transaction.state.log.min.isr=2\nauto.create.topics.enable=false\n"
    )
    log = (folder / f"{broker}.log").open("wb")
    storage = java("kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER, "--config", properties)
    subprocess.run(storage, check=True, stdout=log, stderr=log)
    return subprocess.Popen(java("kafka.Kafka", properties), stdout=log, stderr=log)


def running(admin: AdminClient) -> int:
    try:
        return len(admin.list_topics(timeout=3).brokers)
    except KafkaException:
        return 0


def leader(topic: str, partition: int, asked: str = BOOTSTRAP) -> int:
    """Return -1 if there is no leader, and 0 if the broker does not answer. A new client asks one of the brokers `asked` first."""
    try:
        partitions = (
            AdminClient({**SERVERS, "bootstrap.servers": asked})
            .list_topics(topic, 5)
            .topics[topic]
            .partitions
        )
    except KafkaException:
        return 0
    return partitions[partition].leader if partition in partitions else -1


def end_offset(admin: AdminClient, topic: str, level: IsolationLevel) -> int:
    asked = {TopicPartition(topic, 0): OffsetSpec.latest()}
    (answer,) = admin.list_offsets(asked, isolation_level=level, request_timeout=10).values()
    return answer.result().offset


def show(brokers: dict[int, subprocess.Popen[bytes]]) -> bool:
    admin = AdminClient(SERVERS)
    await_true(lambda: running(admin) == len(brokers), "three brokers")
    admin.create_topics([NewTopic("a", 1, 3)])["a"].result()
    await_true(lambda: leader("a", 0) > 0, "a/0 to have a leader")
    producer = Producer({**SERVERS, "transactional.id": TRANSACTIONAL_ID, "transaction.timeout.ms": 120_000})
    producer.init_transactions(60)
    coordinator = leader("__transaction_state", COORDINATED_BY)
    paused = next(broker for broker in brokers if broker != coordinator)
    admin.create_topics([NewTopic("b", 1, replica_assignment=[[paused]])])["b"].result()
    await_true(lambda: leader("b", 0) == paused, "b/0 to have a leader")
    producer.begin_transaction()
    for topic in ("a", "b"):
        producer.produce(topic, b"in one transaction", partition=0)
    producer.flush(60)
    os.kill(brokers[paused].pid, signal.SIGSTOP)
    try:
        print(
            f"broker {paused}, which has b/0, is paused; {TRANSACTIONAL_ID} is coordinated by {coordinator}"
        )
        await_true(
            lambda: leader("b", 0, f"localhost:{PORTS[coordinator]}") == -1,
            "the controller to fence the broker",
        )
        producer.commit_transaction(60)
        print("the commit has succeeded")
    finally:
        os.kill(brokers[paused].pid, signal.SIGCONT)
    await_true(lambda: leader("b", 0) == paused, "b/0 to have its leader again")
    resumed = time.monotonic()
    offsets = (0, 0)
    while time.monotonic() - resumed < 30 and (not offsets[1] or offsets[0] < offsets[1]):
        try:
            stable = end_offset(admin, "b", IsolationLevel.READ_COMMITTED)
            offsets = stable, end_offset(admin, "b", IsolationLevel.READ_UNCOMMITTED)
        except KafkaException as error:
            print(f"b/0: {error}")
        time.sleep(0.5)
    print(f"b/0 after {time.monotonic() - resumed:.0f} s: last stable offset {offsets[0]}, end {offsets[1]}")
    return offsets[0] == offsets[1]


with tempfile.TemporaryDirectory() as name:
    started: dict[int, subprocess.Popen[bytes]] = {}
    try:
        for number, first_port in PORTS.items():
            started[number] = start_broker(Path(name), number, first_port)
        marked = show(started)
    finally:
        for process in started.values():
            process.kill()
            process.wait()
    print(
        "the transaction has its marker" if marked else "WRONG: the transaction is complete, and b/0 is open"
    )
    sys.exit(not marked)
