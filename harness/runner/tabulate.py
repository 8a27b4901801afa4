"""From what a run left in its folder to the tables that are checked.

It is the same for a run that ended, which still knows who led what, and for one that was killed,
of which there are the journals and what lies in its brokers' folders.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import pyarrow.parquet as pq

from harness.model.promises import FETCH, HISTORY_FILE, INTERNAL_TOPICS
from harness.record.client_history import write_client_history
from harness.record.events import Completed, NotAnEvent, parse
from harness.record.naming import operation_name
from harness.record.partitions import PartitionIds, write_partitions
from harness.record.tables import Tabulator
from harness.results.reasons import Reason, ReasonCode
from harness.settings.run_file import StoredPlan
from harness.witness import FETCHED_FOLDER
from harness.witness.capture import ReplicaSource, capture

Place = tuple[str, int]


@dataclass(frozen=True)
class PartitionEnds:
    """What the cluster said of its partitions when it was at rest; empty if nobody could ask."""

    leaders: Mapping[Place, int]
    high_watermarks: Mapping[Place, int]
    compacted: Mapping[str, bool] = field(default_factory=dict)  # by topic


def tabulate(folder: Path, plan: StoredPlan, ends: PartitionEnds | None = None) -> None:
    """Write `history/` from the journals, and `log/` from the brokers' segments if they are there; and, where the
    run promises it, the clients' history beside them.
    """
    run, pipeline, asked = int(plan.run["id"]), plan.pipeline, ends or PartitionEnds({}, {})
    names = PartitionIds(pipeline.partition_counts)
    tables = Tabulator(run, pipeline.stages, names)
    journals = sorted(path for path in (folder / "journals").glob("*.jsonl") if path.stem != "nemesis")
    tables.write(journals, folder / "history")
    planned = [topic.name for topic in pipeline.topics]
    if sources := replicas(folder, plan.promises.witness):
        # A user's programs may have made topics themselves.
        made = () if pipeline.journaled else {topic for topic, _ in asked.leaders}
        topics = sorted({*planned, *made} - {*INTERNAL_TOPICS})
        out, marks = folder / "log", asked.high_watermarks
        capture(run, sources, names, asked.leaders, tables.op_of, out, topics, marks)
    known = {*planned, *(table.name for table in pipeline.tables)}
    write_partitions(names, run, folder / "history", asked.compacted, known)
    if plan.promises.history:
        told_by = [*journals, *(folder / "journals").glob("nemesis.jsonl")]
        write_client_history(told_by, pipeline.stages, folder / HISTORY_FILE)


def unexpected_errors(folder: Path) -> list[Reason]:
    """What the one broad except of the workers caught: errors that nobody foresaw, by operation."""
    found = []
    for path in sorted((folder / "journals").glob("*.jsonl")):
        with path.open("rb") as lines:
            for line in lines:
                if b'"surprise":true' in line and line.endswith(b"\n"):
                    try:
                        event = parse(orjson.loads(line))
                    except (NotAnEvent, orjson.JSONDecodeError):
                        continue  # the tables count it as a line that is missing
                    if isinstance(event, Completed) and event.surprise:
                        name = operation_name(path.stem, event.op)
                        words = f"{name} met an error that nobody foresaw: {event.error}"
                        found.append(Reason(ReasonCode.UNEXPECTED_ERROR, words, name))
    return found


def count_rows(folder: Path) -> dict[str, int]:
    """How many rows each table of a run has."""
    return {path.stem: pq.read_metadata(path).num_rows for path in sorted(folder.glob("*/*.parquet"))}


def replicas(folder: Path, witness: str) -> Sequence[ReplicaSource]:
    """The data folders that the brokers of a run left behind, or what was fetched of them."""
    found = sorted((folder / (FETCHED_FOLDER if witness == FETCH else "brokers")).glob("*/data"))
    return [ReplicaSource(int(data.parent.name), data) for data in found if data.parent.name.isdigit()]
