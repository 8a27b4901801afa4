"""Makes the tables that checkers read from the evidence in a run folder.

It also works for a run that was killed. Such a run leaves only the journals and the brokers' data folders, so the
leaders of its partitions are not known.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import pyarrow.parquet as pq

from harness.model.pipeline import PipelineSpec, TopicPartition
from harness.model.promises import FETCH, HISTORY_FILE, INTERNAL_TOPICS, Promises
from harness.record.client_history import write_client_history
from harness.record.events import Completed, NotAnEvent, parse
from harness.record.naming import operation_name
from harness.record.partition_numbers import PartitionIds
from harness.record.tables import Tabulator, write_partitions
from harness.results.reasons import Reason, ReasonCode
from harness.witness import FETCHED_FOLDER
from harness.witness.capture import ReplicaSource, capture


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
