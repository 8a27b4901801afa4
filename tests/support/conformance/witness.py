"""A cluster's witness held against what its consumers read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.cluster import Cluster
from harness.common.waiting import wait_for
from harness.model.promises import SEGMENTS
from harness.model.vocabulary import Isolation
from harness.runner.tabulate import replicas
from harness.witness import LogBounds
from harness.witness.records import read_marker, read_records
from harness.witness.replicas import Replica, find_replicas
from tests.support.conformance.means import (
    SEEN,
    SYNC_TIMEOUT_S,
    WITHIN_S,
    Footing,
    at_rest,
    producing,
    records,
)

Read = tuple[int, bytes | None, bytes]  # offset, key, value
Told = Mapping[Isolation, Mapping[int, list[Read]]]


@dataclass
class Log:
    """One replica's log of a partition, read to its end."""

    batches: list[tuple[int, ...]] = field(default_factory=list)  # what all replicas must have alike
    written: list[Read] = field(default_factory=list)  # as a reader at read_uncommitted is given it
    committed: list[Read] = field(default_factory=list)  # and one at read_committed
    end: int = 0


def check_witness_of(cluster: Cluster, topic: str, told: Told, folder: Path) -> None:
    """`told`: by isolation and partition, what a consumer has read from the start to the end."""
    witness = cluster.witness()
    assert witness is not None
    views, ends = cluster.describe(topic), cluster.log_offsets([topic])
    edges = {
        (topic, number): LogBounds(
            view.leader, ends[topic, number][0], ends[topic, number][2], topic_id=view.topic_id
        )
        for number, view in views.items()
    }
    witness.collect(edges, folder)
    assert topic not in witness.unreadable
    logs: dict[int, dict[int, Log]] = {number: {} for number in views}
    for source in replicas(folder, witness.kind):
        for replica in find_replicas(source, {topic}):
            logs[replica.partition][replica.broker] = _read_out(replica)
            assert not replica.damage
    for number, view in views.items():
        wanted = set(view.replicas) if witness.kind == SEGMENTS else {view.leader}
        assert set(logs[number]) == wanted
        leaders = logs[number][view.leader]
        assert leaders.end == edges[topic, number].high_watermark
        for broker, log in logs[number].items():
            assert log.batches == leaders.batches, f"the log of {topic}/{number} on broker {broker} differs"
        assert leaders.written == told[Isolation.READ_UNCOMMITTED][number]
        assert leaders.committed == told[Isolation.READ_COMMITTED][number]


def _read_out(replica: Replica) -> Log:
    """A batch is read while the file stands at it."""
    log = Log()
    pending: dict[int, list[Read]] = {}
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
        found = [(record.offset, record.key, record.value or b"") for record in read_records(batch)]
        log.written += found
        if batch.transactional:
            pending.setdefault(batch.producer_id, []).extend(found)
        else:
            log.committed += found
    assert not any(pending.values()), "a transaction has no marker"
    log.committed.sort()
    return log


def check_the_witness(cluster: Cluster, footing: Footing, folder: Path) -> None:
    """It takes what was written, batch by batch: committed, aborted, compressed."""
    topic = footing.name(SEEN)
    for compression in ("none", "lz4"):
        producer = producing(cluster, footing.name(f"witnessed-{compression}"), compression)
        for turn, commits in enumerate((True, False, True)):
            producer.begin_transaction()
            for number in range(30):
                value = f"{compression} {turn} {number}".encode()
                producer.produce(topic, value, key=str(number).encode(), partition=number % 3)
            assert producer.flush(WITHIN_S) == 0
            (producer.commit_transaction if commits else producer.abort_transaction)(WITHIN_S)
    wait_for(lambda: at_rest(cluster, topic), "the last markers", WITHIN_S)
    cluster.await_in_sync(SYNC_TIMEOUT_S)
    told = {
        isolation: {n: records(cluster, topic, n, isolation) for n in range(3)}
        for isolation in (Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED)
    }
    assert sum(map(len, told[Isolation.READ_UNCOMMITTED].values())) == 180
    assert sum(map(len, told[Isolation.READ_COMMITTED].values())) == 120
    check_witness_of(cluster, topic, told, folder)
