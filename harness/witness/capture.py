"""Reads the logs of every replica into the four tables of `harness.record.schema.LOG`.

The run calls this once nothing moves any more, and hands in the high watermarks that the leaders
answered then: the segments are complete, however the brokers end. Of a cluster that was killed in the
middle the tables are right as far as they go: a tail may be torn (said in `damaged`), and a high
watermark, from the brokers' own checkpoints, is a lower bound.

A batch that cannot be trusted is left out of the table `batches`, and its replica's `damaged` says
so; no check may take its absence for evidence.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from harness.record.parquet_writer import ParquetWriter, open_parquet
from harness.record.partitions import PartitionIds
from harness.record.schema import LOG
from harness.witness import offsets_log, transaction_log
from harness.witness.fields import UndecodableField
from harness.witness.records import LogRecord, read_marker, read_records
from harness.witness.replicas import Replica, ReplicaSource, find_replicas
from harness.witness.segments import LogBatch

__all__ = ["INTERNAL_TOPICS", "ReplicaSource", "capture"]

TRANSACTION_STATE = "__transaction_state"
CONSUMER_OFFSETS = "__consumer_offsets"
INTERNAL_TOPICS = (TRANSACTION_STATE, CONSUMER_OFFSETS)

TopicPartition = tuple[str, int]


def capture(
    run: int,
    sources: Sequence[ReplicaSource],
    names: PartitionIds,
    leaders: Mapping[TopicPartition, int],
    op_of: Callable[[str], int | None],
    out: Path,
    topics: Collection[str],
    high_watermarks: Mapping[TopicPartition, int] | None = None,
) -> None:
    """Write `batches`, `replicas`, `transactions` and `offsets` into the folder `out`.

    `leaders` says who led each partition when the brokers were stopped. Where it does not, or names
    a broker that is no source, the replica that Kafka would elect stands in: the one with the latest
    leader epoch in its log, then with the highest log end. `op_of` gives the operation that the
    metadata of an offset commit names. The two internal topics are always read beside `topics`.

    `high_watermarks` is what the leaders answered when the cluster was at rest; without it the brokers'
    own checkpoints must do, which are exact after a clean stop only.

    Nothing is held in memory but a chunk of each table. Raises `EnvironmentFailure`.
    """
    wanted = {*topics, *INTERNAL_TOPICS}
    replicas = [replica for source in sources for replica in find_replicas(source, wanted)]
    led_by = _leaders(replicas, leaders)
    out.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        sheets = {
            name: stack.enter_context(open_parquet(out / f"{name}.parquet", schema))
            for name, schema in LOG.items()
        }
        scribe = _Scribe(run, names, op_of, sheets, frozenset(topics))
        for replica in replicas:
            answered = (high_watermarks or {}).get((replica.topic, replica.partition))
            if answered is not None:
                replica.high_watermark = answered
            scribe.write(replica, leads=led_by[replica.topic, replica.partition] == replica.broker)


def _leaders(
    replicas: Sequence[Replica], known: Mapping[TopicPartition, int]
) -> Mapping[TopicPartition, int]:
    by_partition: dict[TopicPartition, list[Replica]] = {}
    for replica in replicas:
        by_partition.setdefault((replica.topic, replica.partition), []).append(replica)
    return {
        partition: known[partition]
        if known.get(partition) in {replica.broker for replica in held}
        else max(held, key=_electable).broker
        for partition, held in by_partition.items()
    }


def _electable(replica: Replica) -> tuple[int, int, int]:
    """Of two replicas that differ, the greater would lead; the lowest broker wins a tie."""
    return *replica.last_epoch_and_end(), -replica.broker


@dataclass(frozen=True)
class _Scribe:
    """Turns what a replica holds into rows."""

    run: int
    names: PartitionIds
    op_of: Callable[[str], int | None]
    sheets: Mapping[str, ParquetWriter]
    topics: frozenset[str]  # of the pipeline

    def write(self, replica: Replica, *, leads: bool) -> None:
        """All batches of a replica, the records too if they are evidence, and the replica itself."""
        tp = self.names.id(replica.topic, replica.partition)
        internal = replica.topic in INTERNAL_TOPICS
        for batch in replica.read():
            try:
                records = list(read_records(batch)) if leads and internal and not batch.control else []
                self._write_batch(batch, replica.broker, leads, tp)
            except UndecodableField as error:
                replica.damage.add(f"damaged batch at offset {batch.base_offset}: {error}")
                continue
            for record in records:
                try:
                    self._write_record(replica.topic, tp, batch, record)
                except UndecodableField as error:
                    replica.damage.add(f"record at offset {record.offset}: {error}")
        self.sheets["replicas"].append(
            (
                self.run,
                replica.broker,
                leads,
                tp,
                replica.topic_id(),
                replica.log_start,
                max(replica.log_start, replica.log_end),
                replica.high_watermark,
                str(replica.damage) if replica.damage else None,
            )
        )

    def _write_record(self, topic: str, tp: int, batch: LogBatch, record: LogRecord) -> None:
        if topic == TRANSACTION_STATE:
            self._write_state(tp, record)
        else:
            self._write_commit(tp, batch, record)

    def _write_batch(self, batch: LogBatch, broker: int, leads: bool, tp: int) -> None:
        marker = read_marker(batch) if batch.control else None
        self.sheets["batches"].append(
            (
                self.run,
                broker,
                leads,
                tp,
                batch.base_offset,
                batch.last_offset,
                batch.records,
                batch.producer_id,
                batch.epoch,
                batch.base_sequence,
                batch.transactional,
                batch.control,
                marker.type if marker else None,
                marker.coordinator_epoch if marker else None,
                batch.leader_epoch,
                batch.max_timestamp_ms,
                batch.crc,
            )
        )

    def _write_state(self, log_tp: int, record: LogRecord) -> None:
        state = transaction_log.decode(record.key, record.value)
        if state is None:
            return
        self.sheets["transactions"].append(
            (
                self.run,
                log_tp,
                record.offset,
                state.transactional_id,
                state.producer_id,
                state.epoch,
                state.state,
                [self.names.id(topic, partition) for topic, partition in state.partitions],
                state.timeout_ms,
                state.start_ms,
                record.timestamp_ms if state.update_ms is None else state.update_ms,
                state.client_version,
            )
        )

    def _write_commit(self, log_tp: int, batch: LogBatch, record: LogRecord) -> None:
        commit = offsets_log.decode(record.key, record.value)
        if commit is None or commit.topic not in self.topics:
            return  # no offset of the run's own topics
        # confluent-kafka counts the end of the C string into the metadata that it sends.
        metadata = commit.metadata.rstrip("\0") if commit.metadata is not None else None
        self.sheets["offsets"].append(
            (
                self.run,
                log_tp,
                record.offset,
                commit.group,
                self.names.id(commit.topic, commit.partition),
                commit.committed,
                metadata,
                self.op_of(metadata) if metadata else None,
                batch.producer_id,
                batch.epoch,
                batch.transactional,
                record.timestamp_ms if commit.timestamp_ms is None else commit.timestamp_ms,
            )
        )
