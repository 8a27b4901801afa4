"""Checks that the broker log which a cluster's witness collects agrees with the records that consumers read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.cluster import Cluster
from harness.common.waiting import wait_for
from harness.model.promises import SEGMENTS
from harness.model.vocabulary import Isolation
from harness.witness import LogBounds
from harness.witness.records import read_marker, read_records
from harness.witness.segments import Replica, find_replicas
from harness.witness.tabulate import replicas
from tests.support.conformance.means import (
    SYNC_TIMEOUT_S,
    TIMEOUT_S,
    WITNESSED,
    ClusterUser,
    is_stable,
    read_partition,
    transactional_producer,
)

ReadRecord = tuple[int, bytes | None, bytes]  # offset, key, value
ReadRecords = Mapping[Isolation, Mapping[int, list[ReadRecord]]]


@dataclass
class Log:
    """One replica's log of a partition, read to its end."""

    batches: list[tuple[int, ...]] = field(default_factory=list)  # must be equal on all replicas
    written: list[ReadRecord] = field(default_factory=list)  # the records of a read_uncommitted consumer
    committed: list[ReadRecord] = field(default_factory=list)  # the records of a read_committed consumer
    end: int = 0


def check_witness_of_topic(cluster: Cluster, topic: str, consumed: ReadRecords, folder: Path) -> None:
    """Compare every replica's log with `consumed`: a consumer's records of the topic by isolation and partition."""
    witness = cluster.witness()
    assert witness is not None
    views, ends = cluster.describe(topic), cluster.log_offsets([topic])
    bounds = {
        (topic, number): LogBounds(
            view.leader, ends[topic, number][0], ends[topic, number][2], topic_id=view.topic_id
        )
        for number, view in views.items()
    }
    witness.collect(bounds, folder)
    assert topic not in witness.unreadable
    logs: dict[int, dict[int, Log]] = {number: {} for number in views}
    for source in replicas(folder, witness.kind):
        for replica in find_replicas(source, {topic}):
            logs[replica.partition][replica.broker] = _read_log(replica)
            assert not replica.damage
    for number, view in views.items():
        brokers = set(view.replicas) if witness.kind == SEGMENTS else {view.leader}
        assert set(logs[number]) == brokers
        leader_log = logs[number][view.leader]
        assert leader_log.end == bounds[topic, number].high_watermark
        for broker, log in logs[number].items():
            assert log.batches == leader_log.batches, (
                f"the log of {topic}/{number} on broker {broker} differs"
            )
        assert leader_log.written == consumed[Isolation.READ_UNCOMMITTED][number]
        assert leader_log.committed == consumed[Isolation.READ_COMMITTED][number]


def _read_log(replica: Replica) -> Log:
    # A batch must be read before the next one: both share the position in the file.
    log = Log()
    pending: dict[int, list[ReadRecord]] = {}
    for batch in replica.read():
        log.end = batch.last_offset + 1
        log.batches.append(
            (batch.base_offset, batch.last_offset, batch.crc, batch.producer_id, batch.epoch, batch.records)
        )
        if batch.control:
            marker = read_marker(batch)
            ended = pending.pop(batch.producer_id, []) if marker else []
            log.committed += ended if marker and marker.type == "commit" else []
            continue
        records = [(record.offset, record.key, record.value or b"") for record in read_records(batch)]
        log.written += records
        if batch.transactional:
            pending.setdefault(batch.producer_id, []).extend(records)
        else:
            log.committed += records
    assert not any(pending.values()), "a transaction has no marker"
    log.committed.sort()
    return log


def check_the_witness(cluster: Cluster, user: ClusterUser, folder: Path) -> None:
    """Write committed and aborted transactions, compressed and not, and compare logs with consumers."""
    topic = user.name(WITNESSED)
    for compression in ("none", "lz4"):
        producer = transactional_producer(cluster, user.name(f"witnessed-{compression}"), compression)
        for turn, commits in enumerate((True, False, True)):
            producer.begin_transaction()
            for number in range(30):
                value = f"{compression} {turn} {number}".encode()
                producer.produce(topic, value, key=str(number).encode(), partition=number % 3)
            assert producer.flush(TIMEOUT_S) == 0
            (producer.commit_transaction if commits else producer.abort_transaction)(TIMEOUT_S)
    wait_for(lambda: is_stable(cluster, topic), "the last markers", TIMEOUT_S)
    cluster.await_in_sync(SYNC_TIMEOUT_S)
    consumed = {
        isolation: {n: read_partition(cluster, topic, n, isolation) for n in range(3)}
        for isolation in (Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED)
    }
    assert sum(map(len, consumed[Isolation.READ_UNCOMMITTED].values())) == 180
    assert sum(map(len, consumed[Isolation.READ_COMMITTED].values())) == 120
    check_witness_of_topic(cluster, topic, consumed, folder)
