"""Fetch whole batches, including markers, from the leaders at read_uncommitted, and select those of a run.

A record of the transaction log names a transactional id and its producer id. An offset commit of the run is in a batch
with such a producer id, or names a group of the run. A batch that cannot be decoded counts as the run's, because it is
evidence of damage.

Only the leader's replica of each partition is read. This works with any cluster that the user may read. The batches are
written unchanged into a folder like a broker's data folder. At most one response is in memory. On a shared cluster,
only the run's batches of internal topics are written.
"""

import base64
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO
from uuid import UUID

from kafka.protocol.consumer import FetchRequest

from harness.common.errors import EnvironmentFailure
from harness.common.waiting import wait_for
from harness.model.pipeline import CONSUMER_OFFSETS, TRANSACTION_STATE, TopicPartition
from harness.model.promises import FETCH
from harness.results.reasons import BY_ACLS
from harness.wire.protocol import KafkaConnection, Target
from harness.witness import FETCHED_FOLDER, LogBounds, internal_topics
from harness.witness.internal_topics import UndecodableField
from harness.witness.records import read_records
from harness.witness.segments import HEADER, LogBatch

VERSION = 12  # the last version that names topics; later ones have topic ids
MAX_RESPONSE_BYTES = 4 * 1024 * 1024
"""The size limit of a response. A larger batch is still returned whole (KIP-74)."""
TIMEOUT_S = 20.0
NO_ERROR, NOT_AUTHORIZED = 0, 29
_LENGTH_END = 12  # the size of base offset and length, which `length` does not include


@dataclass
class RunBatches:
    """Selects the run's batches. It collects the run's producer ids from the transaction log and the run's topics."""

    prefix: str | None  # the prefix of the run's transactional ids; None: all batches are selected
    groups: Collection[str] = ()
    producers: set[int] = field(default_factory=set)

    def includes(self, topic: str, batch: LogBatch) -> bool:
        """Return whether a batch belongs to the run."""
        if self.prefix is None:
            return True
        if topic not in (TRANSACTION_STATE, CONSUMER_OFFSETS):
            if batch.producer_id >= 0:
                self.producers.add(batch.producer_id)
            return True
        if batch.transactional or (batch.control and topic == CONSUMER_OFFSETS):
            return batch.producer_id in self.producers
        try:
            return self._names_run(topic, batch)
        except UndecodableField:
            return True

    def _names_run(self, topic: str, batch: LogBatch) -> bool:
        assert self.prefix is not None
        is_own = False
        for record in read_records(batch):
            if topic == TRANSACTION_STATE:
                state = internal_topics.decode_state(record.key, record.value)
                if state is not None and state.transactional_id.startswith(self.prefix):
                    is_own = True
                    if state.producer_id is not None:
                        self.producers.add(state.producer_id)
            else:
                commit = internal_topics.decode_commit(record.key, record.value)
                is_own = is_own or (commit is not None and commit.group in self.groups)
        return is_own


ALL_BATCHES = RunBatches(None)


class FetchWitness:
    """A `Witness` that reads the leader's replica of each partition."""

    kind = FETCH

    def __init__(
        self,
        brokers: Mapping[int, Target],
        run_batches: RunBatches = ALL_BATCHES,
        unreadable: Mapping[str, str] | None = None,
    ) -> None:
        """Keep the arguments. Nothing is fetched yet.

        Args:
            brokers: The address of each broker.
            run_batches: Selects the batches of internal topics that are written.
            unreadable: The topics of which it is already known that this user may not read them, and why.
        """
        self._brokers = brokers
        self._run_batches = run_batches
        self._unreadable: dict[str, str] = dict(unreadable or {})
        self._topics_with_gaps: set[str] = set()
        self._fetched_topics: set[str] = set()

    @property
    def unreadable(self) -> Mapping[str, str]:
        """The topics that ACLs do not allow this user to read, and why."""
        return self._unreadable

    @property
    def complete_topics(self) -> frozenset[str]:
        """The topics in which no offset was missing."""
        return frozenset(self._fetched_topics - self._topics_with_gaps)

    def collect(self, bounds: Mapping[TopicPartition, LogBounds], folder: Path) -> None:
        """Fetch every partition from its leader.

        The transaction log is read before the committed offsets, because it tells which producer ids are the run's.
        """
        by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
        for partition, partition_bounds in bounds.items():
            by_leader[partition_bounds.leader].append(partition)
        for partitions in _group_in_reading_order(by_leader):
            leader = bounds[partitions[0]].leader
            if leader not in self._brokers:
                raise EnvironmentFailure(
                    f"{partitions[0][0]}/{partitions[0][1]} has no leader, so it cannot be fetched"
                )
            data = folder / FETCHED_FOLDER / str(leader) / "data"
            with KafkaConnection(self._brokers[leader], TIMEOUT_S) as connection:
                for partition in partitions:
                    if partition[0] not in self._unreadable:
                        self._fetch_partition(connection, partition, bounds[partition], data)
        for leader, partitions in by_leader.items():
            readable = {
                partition: bounds[partition]
                for partition in partitions
                if partition[0] not in self._unreadable
            }
            data = folder / FETCHED_FOLDER / str(leader) / "data"
            data.mkdir(parents=True, exist_ok=True)
            _write_checkpoint(
                data / "replication-offset-checkpoint", {p: b.high_watermark for p, b in readable.items()}
            )
            _write_checkpoint(data / "log-start-offset-checkpoint", {p: b.start for p, b in readable.items()})

    def _fetch_partition(
        self, connection: KafkaConnection, partition: TopicPartition, partition_bounds: LogBounds, data: Path
    ) -> None:
        topic, number = partition
        partition_dir = data / f"{topic}-{number}"
        partition_dir.mkdir(parents=True)
        (partition_dir / "partition.metadata").write_text(
            f"version: 0\ntopic_id: {_in_kafkas_form(partition_bounds.topic_id)}\n", encoding="utf-8"
        )
        self._fetched_topics.add(topic)
        with (partition_dir / f"{partition_bounds.start:020}.log").open("wb") as file:
            allowed = self._write_batches(connection, partition, partition_bounds, file)
        if not allowed:
            (partition_dir / f"{partition_bounds.start:020}.log").unlink()
            (partition_dir / "partition.metadata").unlink()
            partition_dir.rmdir()

    def _write_batches(
        self,
        connection: KafkaConnection,
        partition: TopicPartition,
        partition_bounds: LogBounds,
        file: BinaryIO,
    ) -> bool:
        """Write all batches from the start to the high watermark. Return False if ACLs forbid it."""
        offset = partition_bounds.start
        while offset < partition_bounds.high_watermark:
            records = self._fetch_records(connection, partition, offset)
            if records is None:
                return False
            first_offset = offset
            for batch in batches_in(records):
                if batch.base_offset >= partition_bounds.high_watermark:
                    break
                if batch.base_offset > offset or batch.records != batch.last_offset_delta + 1:
                    self._topics_with_gaps.add(partition[0])
                if self._run_batches.includes(partition[0], batch):
                    file.write(batch.source[batch.position : batch.end])
                offset = max(offset, batch.last_offset + 1)
            if offset == first_offset:
                raise EnvironmentFailure(
                    f"the data fetched from {partition[0]}/{partition[1]} at offset {offset} has no complete batch"
                )
        return True

    def _fetch_records(
        self, connection: KafkaConnection, partition: TopicPartition, offset: int
    ) -> bytes | None:
        """Fetch batches from an offset on. None if ACLs forbid it."""

        def fetch_batches() -> tuple[bytes | None] | None:
            answer = _fetch(connection, partition, offset)
            if answer.error_code == NOT_AUTHORIZED:
                self._refuse(partition[0])
                return (None,)
            if answer.error_code != NO_ERROR:
                raise EnvironmentFailure(
                    f"fetching {partition[0]}/{partition[1]} from offset {offset} was refused "
                    f"with error {answer.error_code}"
                )
            return (bytes(answer.records),) if answer.records else None

        return wait_for(
            fetch_batches, f"the records of {partition[0]}/{partition[1]} at offset {offset}", TIMEOUT_S
        )[0]

    def _refuse(self, topic: str) -> None:
        self._unreadable[topic] = (
            f"{BY_ACLS} this user to read the log of {topic} (a Fetch request was answered with error "
            f"{NOT_AUTHORIZED}, TOPIC_AUTHORIZATION_FAILED)"
        )


def batches_in(records: bytes) -> Iterator[LogBatch]:
    """Yield the complete batches of a response. If the last batch is incomplete, the next response has it again."""
    position = 0
    while len(records) - position >= HEADER.size:
        batch: Any = LogBatch._make((*HEADER.unpack_from(records, position), records, position))
        if batch.end > len(records) or batch.length < HEADER.size - _LENGTH_END:
            return
        yield batch
        position = batch.end


def _in_kafkas_form(topic_id: str) -> str:
    """Return a topic id in the form that brokers write into the partition's folder."""
    try:
        return base64.urlsafe_b64encode(UUID(topic_id).bytes).rstrip(b"=").decode()
    except ValueError:
        return topic_id  # it is not a UUID


def _group_in_reading_order(by_leader: Mapping[int, list[TopicPartition]]) -> Iterator[list[TopicPartition]]:
    """Yield the partitions of each leader: first the pipeline's topics, then the transaction log, then the offsets."""
    for reading_pass in (0, 1, 2):
        for partitions in by_leader.values():
            if group := sorted(
                partition for partition in partitions if _reading_pass(partition[0]) == reading_pass
            ):
                yield group


def _reading_pass(topic: str) -> int:
    return {"__transaction_state": 1, "__consumer_offsets": 2}.get(topic, 0)


def _fetch(connection: KafkaConnection, partition: TopicPartition, offset: int) -> Any:
    kind: Any = FetchRequest.FetchTopic
    fetch_partition = kind.FetchPartition(
        partition=partition[1],
        fetch_offset=offset,
        partition_max_bytes=MAX_RESPONSE_BYTES,
        log_start_offset=-1,
    )
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=MAX_RESPONSE_BYTES,
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
    path.write_text("\n".join(["0", str(len(lines)), *lines, ""]), encoding="utf-8")
