"""Count the rows of the recorded tables before the shared tables are made.

The counts are made with PyArrow and not with Spark. All other steps wait for them, and the first query of a Spark
session takes about a second.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from checkers.spark.frames import local_rows
from checkers.stored.partition_tables import OutputDue
from checkers.stored.sources import Sources, read_columns
from checkers.stored.tally import NO_TP, Row, Tally, add_up


@dataclass(frozen=True)
class CountQuery:
    """A query of one recorded table: which conditions to count, by run."""

    table: str
    needs: Sequence[str] = ()  # the columns that the conditions read
    conditions: Mapping[str, Callable[[pa.Table], Any]] = field(default_factory=dict)
    """By name, a function from the table to a boolean column; null counts as false."""
    text: str = ""  # a column by which the rows are counted too
    tp: str = ""  # a partition column by which the rows are counted too
    most: str = ""  # a column whose maximum is kept


def _has_no_operation(t: pa.Table) -> Any:
    return pc.and_kleene(pc.is_null(t["op"]), t["transactional"])


def _outside_transaction(t: pa.Table) -> Any:
    return pc.and_kleene(pc.is_valid(t["op"]), pc.invert(t["transactional"]))


COUNT_QUERIES = (
    CountQuery("ops", text="journal"),
    CountQuery("sends", text="topic"),
    CountQuery("claims"),
    CountQuery("assignments", ("gained",), {"given_up": lambda t: pc.invert(t["gained"])}),
    CountQuery("expected", text="stage", tp="tp"),
    CountQuery("transactions", tp="log_tp"),
    # `checkers.stored.runs.named_groups` decides from these counts whether a missing offset commit proves a loss.
    CountQuery(
        "offsets",
        ("op", "transactional"),
        {
            "within": lambda t: t["transactional"],
            "unnamed": _has_no_operation,
            "outside": _outside_transaction,
        },
        text="group",
    ),
)
Kinds = Iterator[tuple[str, Row, Counter[str]]]


def count_recorded(s: Sources) -> Tally:
    """Count the rows of the recorded tables, by run and table.

    Besides the names of the tables, the tally has these names: `ended`: the sentinels in `records`; `sums` and `due`:
    expected sums and expected outputs, by topic; `named`: expected outputs that name their inputs, of stages without
    journals, by topic.
    """
    kinds = [kind for query in COUNT_QUERIES for kind in _kinds(s, query)]
    return add_up([*kinds, *_ended(s), *_named(s), *_due(s)])


def _kinds(s: Sources, query: CountQuery) -> Kinds:
    keys = [name for name in ("run", query.text, query.tp) if name]
    for part in read_columns(s[query.table], [*keys, *query.needs]):
        with_conditions = part
        for name, condition in query.conditions.items():
            with_conditions = with_conditions.append_column(name, condition(part).cast(pa.int64()))
        yield from map(partial(_kind, query), _grouped(with_conditions, keys, sums=[*query.conditions]))


def _kind(query: CountQuery, row: Row) -> tuple[str, Row, Counter[str]]:
    kind = {
        "run": row["run"],
        "tp": row[query.tp] if query.tp else NO_TP,
        "text": row[query.text] if query.text else "",
        "most": row[f"{query.most}_max"] if query.most else None,
    }
    counts = Counter({name: row[f"{name}_sum"] for name in query.conditions if row[f"{name}_sum"]})
    return query.table, kind, counts + Counter(rows=row["count_all"])


def _grouped(
    part: pa.Table, keys: Sequence[str], most: Sequence[str] = (), sums: Sequence[str] = ()
) -> list[Row]:
    aggregates = [*((name, "max") for name in most), *((name, "sum") for name in sums), ([], "count_all")]
    rows: list[Row] = part.group_by(list(keys)).aggregate(aggregates).to_pylist()
    return rows


def _ended(s: Sources) -> Kinds:
    """Count the sentinels, and keep the time at which the last of them was written."""
    query = CountQuery("ended", most="timestamp_ms")
    for part in read_columns(s["records"], ["run", "sentinel", "timestamp_ms"], where="sentinel"):
        yield from map(partial(_kind, query), _grouped(part, ["run"], [query.most]))


@dataclass
class ReplicaOffsets:
    """The offsets that the batches of one replica hold."""

    first: int  # the base offset of its first batch
    next: int  # one above the last offset of its batches
    leads: bool = True  # `leader` is true in every batch
    follows: bool = True  # `leader` is false in every batch
    records: int = 0
    offsets: int = 0  # the number of offsets that its batches span

    @property
    def whole(self) -> bool:
        """True if every offset from 0 on has a record or a marker: the log cleaner removed nothing."""
        return self.first == 0 and self.records == self.offsets == self.next


def read_replica_offsets(s: Sources) -> dict[tuple[int, int, int], ReplicaOffsets]:
    """Read the offsets of each replica, by run, partition and broker. A replica without batches has no entry."""
    by_replica: dict[tuple[int, int, int], ReplicaOffsets] = {}
    for part in read_columns(
        s["batches"], ["run", "tp", "broker", "leader", "base_offset", "last_offset", "count"]
    ):
        spans = pc.add(pc.subtract(part["last_offset"], part["base_offset"]), 1)
        aggregates = [("base_offset", "min"), ("last_offset", "max"), ("count", "sum"), ("offsets", "sum")]
        aggregates += [("leader", "min"), ("leader", "max")]
        totals = part.append_column("offsets", spans).group_by(["run", "tp", "broker"]).aggregate(aggregates)
        for row in totals.to_pylist():
            key = row["run"], row["tp"], row["broker"]
            offsets = by_replica.setdefault(
                key, ReplicaOffsets(row["base_offset_min"], row["last_offset_max"] + 1)
            )
            offsets.leads, offsets.follows = (
                offsets.leads and row["leader_min"],
                offsets.follows and not row["leader_max"],
            )
            offsets.first = min(offsets.first, row["base_offset_min"])
            offsets.next = max(offsets.next, row["last_offset_max"] + 1)
            offsets.records += row["count_sum"]
            offsets.offsets += row["offsets_sum"]
    return by_replica


def read_outputs_due(s: Sources, topics: Collection[tuple[int, str]]) -> set[OutputDue]:
    """Return the kinds of outputs that are expected of the inputs in these topics (run and topic)."""
    inputs = {
        (row["run"], row["tp"]) for row in local_rows(s["partitions"]) if (row["run"], row["topic"]) in topics
    }
    columns = ["run", "stage", "tp", "topic", "output_name", "intermediate_topic"]
    if not inputs:
        return set()
    return {
        (row["run"], row["stage"], row["tp"], row["topic"], row["output_name"], row["intermediate_topic"])
        for part in read_columns(s["expected"], columns)
        for row in _grouped(part, columns)
        if (row["run"], row["tp"]) in inputs and row["output_name"] is not None
    }


def _due(s: Sources) -> Kinds:
    """Count the expected sums and the expected outputs, by topic."""
    for part in read_columns(s["expected"], ["run", "topic", "adds"]):
        sums = pc.is_valid(part["adds"])
        for name, rows in (("sums", part.filter(sums)), ("due", part.filter(pc.invert(sums)))):
            yield from map(partial(_kind, CountQuery(name, text="topic")), _grouped(rows, ["run", "topic"]))


def _named(s: Sources) -> Kinds:
    query = CountQuery("named", text="topic")
    without_journals = {
        (row["run"], row["stage"]) for row in local_rows(s["stages"]) if row["journaled"] is False
    }
    if not without_journals:
        return
    for part in read_columns(s["expected"], ["run", "stage", "topic", "output_name", "correlation_key"]):
        due = part.filter(pc.and_(pc.is_valid(part["output_name"]), pc.is_null(part["correlation_key"])))
        for row in _grouped(due, ["run", "stage", "topic"]):
            if (row["run"], row["stage"]) in without_journals:
                yield _kind(query, row)
