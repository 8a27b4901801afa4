"""Make the tables that checkers read from the evidence in a run folder: journals and brokers' logs.

A run calls `capture` after all writes have ended, with the high watermarks that the leaders reported after them. So the
segments are complete, even if the brokers are killed later. If the cluster was killed earlier, the last batch may be
torn. Then the high watermarks are only lower bounds, because they come from the brokers' checkpoints.

A damaged batch is not in the table `batches`. The column `damaged` of its replica says so, because no check may use the
absence of the batch as evidence.

`tabulate` also works for a run that was killed. Such a run leaves only the journals and the brokers' data folders, so
the leaders of its partitions are not known.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import pyarrow.parquet as pq

from harness.model.pipeline import TRANSACTION_STATE, PipelineSpec, TopicPartition
from harness.model.promises import FETCH, HISTORY_FILE, INTERNAL_TOPICS, SEGMENTS, Promises
from harness.record.client_history import write_client_history
from harness.record.events import Completed, NotAnEvent, parse
from harness.record.naming import PartitionIds, operation_name
from harness.record.parquet import ParquetWriter, open_parquet
from harness.record.schema import LOG
from harness.record.tables import Tabulator, write_partitions
from harness.results.reasons import Reason, ReasonCode
from harness.witness import FETCHED_FOLDER, LogBounds, internal_topics
from harness.witness.internal_topics import UndecodableField
from harness.witness.records import LogRecord, read_marker, read_records
from harness.witness.segments import LogBatch, Replica, ReplicaSource, find_replicas


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

    At most one chunk of each table is in memory.

    Args:
        run: The run's number in the tables.
        sources: The brokers and their data folders.
        names: The ids of partitions in the tables.
        leaders: The leader of each partition at the end. If it is missing, or is not among `sources`, the replica that
            Kafka would elect counts as the leader: the one with the latest leader epoch. If several have it, the one
            with the highest log end.
        op_of: Returns the operation that the metadata of an offset commit names, or None.
        out: The folder for the tables.
        topics: The topics of the pipeline. The two internal topics are always read too.
        high_watermarks: The high watermarks that the leaders reported at the end. Without them the brokers'
            checkpoints are used, which are exact only after a clean stop.

    Raises:
        EnvironmentFailure: A folder or a checkpoint cannot be read.
    """
    all_topics = {*topics, *INTERNAL_TOPICS}
    replicas = [replica for source in sources for replica in find_replicas(source, all_topics)]
    leader_by_partition = _leaders(replicas, leaders)
    out.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        writers = {
            name: stack.enter_context(open_parquet(out / f"{name}.parquet", schema))
            for name, schema in LOG.items()
        }
        tables = _TableWriter(run, names, op_of, writers, frozenset(topics))
        for replica in replicas:
            high_watermark = (high_watermarks or {}).get((replica.topic, replica.partition))
            if high_watermark is not None:
                replica.high_watermark = high_watermark
            tables.write(
                replica, leads=leader_by_partition[replica.topic, replica.partition] == replica.broker
            )


def _leaders(
    replicas: Sequence[Replica], known: Mapping[TopicPartition, int]
) -> Mapping[TopicPartition, int]:
    by_partition: dict[TopicPartition, list[Replica]] = {}
    for replica in replicas:
        by_partition.setdefault((replica.topic, replica.partition), []).append(replica)
    return {
        partition: known[partition]
        if known.get(partition) in {replica.broker for replica in candidates}
        else max(candidates, key=_election_order).broker
        for partition, candidates in by_partition.items()
    }


def _election_order(replica: Replica) -> tuple[int, int, int]:
    """Return a sort key: Kafka would elect the replica with the greatest one. The lowest broker wins a tie."""
    return *replica.last_epoch_and_end(), -replica.broker


@dataclass(frozen=True)
class _TableWriter:
    """Writes the batches and records of replicas as rows."""

    run: int
    names: PartitionIds
    op_of: Callable[[str], int | None]
    writers: Mapping[str, ParquetWriter]
    topics: frozenset[str]  # of the pipeline

    def write(self, replica: Replica, *, leads: bool) -> None:
        """Write a replica and all its batches. If it is the leader's of an internal topic, write its records too."""
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
        self.writers["replicas"].append(
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
        self.writers["batches"].append(
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
        state = internal_topics.decode_state(record.key, record.value)
        if state is None:
            return
        self.writers["transactions"].append(
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
        commit = internal_topics.decode_commit(record.key, record.value)
        if commit is None or commit.topic not in self.topics:
            return  # the offset is in a topic of another pipeline
        # confluent-kafka sends the terminating null character of a C string as part of the metadata.
        metadata = commit.metadata.rstrip("\0") if commit.metadata is not None else None
        self.writers["offsets"].append(
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


class SegmentWitness:
    """A `Witness` of a cluster whose segment files can be read."""

    kind = SEGMENTS
    complete_topics: frozenset[str] = frozenset()  # empty, because this is not known
    unreadable: Mapping[str, str] = {}

    def __init__(self, copy: Callable[[], None] | None = None) -> None:
        """Keep `copy`, which copies all segment files into the run folder. None if they are already in it."""
        self._copy = copy

    def collect(self, bounds: Mapping[TopicPartition, LogBounds], folder: Path) -> None:
        """Copy the files into the run folder, if necessary. Raises `EnvironmentFailure`."""
        if self._copy is not None:
            self._copy()


@dataclass(frozen=True)
class PartitionEnds:
    """Leaders and high watermarks of the partitions at the end of the run; empty if they are not known."""

    leaders: Mapping[TopicPartition, int]
    high_watermarks: Mapping[TopicPartition, int]
    compacted: Mapping[str, bool] = field(default_factory=dict)  # by topic


def tabulate(
    folder: Path, run: int, pipeline: PipelineSpec, promises: Promises, ends: PartitionEnds | None = None
) -> None:
    """Write `history/` from the journals, and `log/` from the segment files if they exist.

    If the run promises it, also write `history.jsonl`.
    """
    ends = ends or PartitionEnds({}, {})
    names = PartitionIds(pipeline.partition_counts)
    tables = Tabulator(run, pipeline.stages, names)
    journals = sorted(path for path in (folder / "journals").glob("*.jsonl") if path.stem != "nemesis")
    tables.write(journals, folder / "history")
    planned = [topic.name for topic in pipeline.topics]
    for topic, partition in sorted(ends.leaders):
        if topic in planned:
            names.id(topic, partition)  # the topic may have got it during the run
    if sources := replicas(folder, promises.witness):
        # A custom pipeline may have created topics itself.
        created = () if pipeline.journaled else {topic for topic, _ in ends.leaders}
        topics = sorted({*planned, *created} - {*INTERNAL_TOPICS})
        log_folder, high_watermarks = folder / "log", ends.high_watermarks
        capture(run, sources, names, ends.leaders, tables.op_of, log_folder, topics, high_watermarks)
    known = {*planned, *(table.name for table in pipeline.tables)}
    write_partitions(names, run, folder / "history", ends.compacted, known)
    if promises.history:
        all_journals = [*journals, *(folder / "journals").glob("nemesis.jsonl")]
        write_client_history(all_journals, pipeline.stages, folder / HISTORY_FILE)


def unexpected_errors(folder: Path) -> list[Reason]:
    """Return one reason for each operation of a worker that failed with an error of an unexpected type."""
    errors = []
    for path in sorted((folder / "journals").glob("*.jsonl")):
        with path.open("rb") as lines:
            for line in lines:
                if b'"surprise":true' in line and line.endswith(b"\n"):
                    try:
                        event = parse(orjson.loads(line))
                    except (NotAnEvent, orjson.JSONDecodeError):
                        continue  # the tables count it as a missing line
                    if isinstance(event, Completed) and event.surprise:
                        name = operation_name(path.stem, event.op)
                        message = f"{name} failed with an unexpected error: {event.error}"
                        errors.append(Reason(ReasonCode.UNEXPECTED_ERROR, message, name))
    return errors


def count_rows(folder: Path) -> dict[str, int]:
    """Return the number of rows of each table of a run."""
    return {path.stem: pq.read_metadata(path).num_rows for path in sorted(folder.glob("*/*.parquet"))}


def replicas(folder: Path, witness: str) -> Sequence[ReplicaSource]:
    """Return the data folders of the brokers, or the folders with the logs that were fetched from them."""
    folders = sorted((folder / (FETCHED_FOLDER if witness == FETCH else "brokers")).glob("*/data"))
    return [ReplicaSource(int(data.parent.name), data) for data in folders if data.parent.name.isdigit()]
