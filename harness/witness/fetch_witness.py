"""Fetch whole batches, including markers, from the leaders at read_uncommitted.

This reads one replica of each partition, of any cluster that the user may read. The batches are written unchanged into
a folder like a broker's data folder. At most one response is in memory. On a shared cluster, only the run's own batches
of internal topics are written.
"""

import base64
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO
from uuid import UUID

from kafka.protocol.consumer import FetchRequest

from harness.common.errors import EnvironmentFailure
from harness.common.waiting import wait_for
from harness.model.pipeline import TopicPartition
from harness.model.promises import FETCH
from harness.wire.protocol import KafkaConnection, Target
from harness.witness import FETCHED_FOLDER, LogBounds
from harness.witness.own_batches import ALL_BATCHES, RunBatches
from harness.witness.segments import HEADER, LogBatch

VERSION = 12  # the last version that names topics; later ones have topic ids
ANSWER_BYTES = 4 * 1024 * 1024
"""The size limit of a response. A larger batch is still returned whole (KIP-74)."""
TIMEOUT_S = 20.0
NO_ERROR, NOT_AUTHORIZED = 0, 29
_LENGTH_END = 12  # the size of base offset and length, which `length` does not include


class FetchWitness:
    """A `Witness` that reads the leader's replica of each partition."""

    kind = FETCH

    def __init__(
        self,
        brokers: Mapping[int, Target],
        own: RunBatches = ALL_BATCHES,
        refused: Mapping[str, str] | None = None,
    ) -> None:
        """Keep the arguments. Nothing is fetched yet.

        Args:
            brokers: The address of each broker.
            own: Selects the batches of internal topics that are written.
            refused: The topics that are already known to be hidden from this user, and why.
        """
        self._brokers = brokers
        self._own = own
        self._refused: dict[str, str] = dict(refused or {})
        self._broken: set[str] = set()
        self._seen: set[str] = set()

    @property
    def unreadable(self) -> Mapping[str, str]:
        """The topics that ACLs do not allow this user to read, and why."""
        return self._refused

    @property
    def complete_topics(self) -> frozenset[str]:
        """The topics of which no offset was missing."""
        return frozenset(self._seen - self._broken)

    def collect(self, edges: Mapping[TopicPartition, LogBounds], folder: Path) -> None:
        """Fetch every partition from its leader.

        The transaction log is read before the committed offsets, because it says which producers are the run's.
        """
        by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
        for partition, edge in edges.items():
            by_leader[edge.leader].append(partition)
        for partitions in _group_in_reading_order(by_leader):
            leader = edges[partitions[0]].leader
            if leader not in self._brokers:
                raise EnvironmentFailure(
                    f"{partitions[0][0]}/{partitions[0][1]} has no leader, so it cannot be fetched"
                )
            data = folder / FETCHED_FOLDER / str(leader) / "data"
            with KafkaConnection(self._brokers[leader], TIMEOUT_S) as connection:
                for partition in partitions:
                    if partition[0] not in self._refused:
                        self._take(connection, partition, edges[partition], data)
        for leader, led in by_leader.items():
            taken = {partition: edges[partition] for partition in led if partition[0] not in self._refused}
            data = folder / FETCHED_FOLDER / str(leader) / "data"
            data.mkdir(parents=True, exist_ok=True)
            _write_checkpoint(
                data / "replication-offset-checkpoint", {p: e.high_watermark for p, e in taken.items()}
            )
            _write_checkpoint(data / "log-start-offset-checkpoint", {p: e.start for p, e in taken.items()})

    def _take(
        self, connection: KafkaConnection, partition: TopicPartition, edge: LogBounds, data: Path
    ) -> None:
        topic, number = partition
        partition_dir = data / f"{topic}-{number}"
        partition_dir.mkdir(parents=True)
        (partition_dir / "partition.metadata").write_text(
            f"version: 0\ntopic_id: {_as_kafka(edge.topic_id)}\n"
        )
        self._seen.add(topic)
        with (partition_dir / f"{edge.start:020}.log").open("wb") as file:
            read = self._stream(connection, partition, edge, file)
        if not read:
            (partition_dir / f"{edge.start:020}.log").unlink()
            (partition_dir / "partition.metadata").unlink()
            partition_dir.rmdir()

    def _stream(
        self, connection: KafkaConnection, partition: TopicPartition, edge: LogBounds, file: BinaryIO
    ) -> bool:
        """Write all batches from the start to the high watermark. Return False if ACLs forbid it."""
        at = edge.start
        while at < edge.high_watermark:
            records = self._records(connection, partition, at)
            if records is None:
                return False
            before = at
            for batch in batches_in(records):
                if batch.base_offset >= edge.high_watermark:
                    break
                if batch.base_offset > at or batch.records != batch.last_offset_delta + 1:
                    self._broken.add(partition[0])
                if self._own.includes(partition[0], batch):
                    file.write(batch.source[batch.at : batch.end])
                at = max(at, batch.last_offset + 1)
            if at == before:
                raise EnvironmentFailure(
                    f"the data fetched from {partition[0]}/{partition[1]} at offset {at} has no whole batch"
                )
        return True

    def _records(self, connection: KafkaConnection, partition: TopicPartition, at: int) -> bytes | None:
        """Fetch batches from an offset on. None if ACLs forbid it."""

        def fetch_batches() -> tuple[bytes | None] | None:
            answer = _fetch(connection, partition, at)
            if answer.error_code == NOT_AUTHORIZED:
                self._refuse(partition[0])
                return (None,)
            if answer.error_code != NO_ERROR:
                raise EnvironmentFailure(
                    f"fetching {partition[0]}/{partition[1]} from offset {at} was refused "
                    f"with error {answer.error_code}"
                )
            return (bytes(answer.records),) if answer.records else None

        return wait_for(
            fetch_batches, f"the records of {partition[0]}/{partition[1]} at offset {at}", TIMEOUT_S
        )[0]

    def _refuse(self, topic: str) -> None:
        self._refused[topic] = f"the cluster's ACLs do not allow this user to read the log of {topic}"


def batches_in(records: bytes) -> Iterator[LogBatch]:
    """Yield the whole batches of a response. The last batch may be cut off; the next response has it again."""
    at = 0
    while len(records) - at >= HEADER.size:
        batch: Any = LogBatch._make((*HEADER.unpack_from(records, at), records, at))
        if batch.end > len(records) or batch.length < HEADER.size - _LENGTH_END:
            return
        yield batch
        at = batch.end


def _as_kafka(topic_id: str) -> str:
    """Return a topic id in the form that brokers write into the partition's folder."""
    try:
        return base64.urlsafe_b64encode(UUID(topic_id).bytes).rstrip(b"=").decode()
    except ValueError:
        return topic_id  # it is not a UUID


def _group_in_reading_order(by_leader: Mapping[int, list[TopicPartition]]) -> Iterator[list[TopicPartition]]:
    """Yield the partitions of each leader: first the pipeline's topics, then the transaction log, then the offsets."""
    for wanted in (0, 1, 2):
        for partitions in by_leader.values():
            if group := sorted(
                partition for partition in partitions if _reading_order(partition[0]) == wanted
            ):
                yield group


def _reading_order(topic: str) -> int:
    return {"__transaction_state": 1, "__consumer_offsets": 2}.get(topic, 0)


def _fetch(connection: KafkaConnection, partition: TopicPartition, offset: int) -> Any:
    kind: Any = FetchRequest.FetchTopic
    fetch_partition = kind.FetchPartition(
        partition=partition[1], fetch_offset=offset, partition_max_bytes=ANSWER_BYTES, log_start_offset=-1
    )
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=ANSWER_BYTES,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[kind(topic=partition[0], partitions=[fetch_partition])],
        forgotten_topics_data=[],
        rack_id="",
        version=VERSION,
    )
    answer = connection.send_request(request, TIMEOUT_S)
    if answer.error_code != NO_ERROR:
        raise EnvironmentFailure(
            f"fetching {partition[0]}/{partition[1]} was refused with error {answer.error_code}"
        )
    return answer.responses[0].partitions[0]


def _write_checkpoint(path: Path, offsets: Mapping[TopicPartition, int]) -> None:
    """Write a checkpoint file as Kafka does."""
    lines = [f"{topic} {number} {offset}" for (topic, number), offset in sorted(offsets.items())]
    path.write_text("\n".join(["0", str(len(lines)), *lines, ""]))
