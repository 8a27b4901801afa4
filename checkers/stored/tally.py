"""Count the rows of tables, by run, and those that match each of many conditions.

`tally` counts several shared tables in one query of Spark. Most rows of a table match the same few combinations of
conditions. So each row gets a bit mask of the conditions that it matches, and Spark counts the rows of each mask.

`count_recorded` counts the recorded tables with PyArrow, before the shared tables are made. All other steps wait for
these counts, and the first query of a Spark session takes about a second.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from checkers.spark.frames import local_rows
from checkers.stored.sources import Sources, read_columns

NO_TP = -1
"""The partition of rows that are not counted by partition."""
MOST = 62
"""The greatest number of conditions on one table: the bits of a long, without its sign."""
SUMS = ("summed", "summed_too")
"""Columns for the sums of each table."""
Row = Mapping[str, Any]
OutputDue = tuple[int, str, int, str, str, str | None]
"""Run, stage, partition of the input, topic, output name, and intermediate topic of an expected output."""


@dataclass(frozen=True)
class TableQuery:
    """A query of one table: which conditions to count, and what to add up."""

    name: str  # the name of the table, or of a part of it
    frame: DataFrame
    conditions: Mapping[str, str]  # SQL by name; null counts as false
    by_tp: str = ""  # the partition column by which rows are also counted; empty: none
    sums: Mapping[str, str] = field(default_factory=dict)  # SQL by name, summed over all rows
    most: str = "cast(null as long)"  # SQL whose maximum over all rows is kept
    edge: str = "cast(null as long)"  # SQL whose minimum and maximum are kept for each condition
    text: str = "''"  # SQL for a text by which rows are also counted


@dataclass(frozen=True)
class Tally:
    """The counts of rows, by run and table.

    Each `Counter` has the number of `rows`, the number of rows that match each condition, and the sums, by name.
    """

    counts: Mapping[tuple[int, str], Counter[str]]
    by_tp: Mapping[tuple[int, str], Mapping[int, Counter[str]]]
    by_text: Mapping[tuple[int, str], Mapping[str, Counter[str]]]
    most: Mapping[tuple[int, str], int]
    edges: Mapping[tuple[int, str], Mapping[tuple[int, str], tuple[int, int]]] = field(default_factory=dict)
    """By partition and condition: the minimum and the maximum of `edge` over the matching rows."""

    def __or__(self, other: "Tally") -> "Tally":
        """Combine the counts of different tables."""
        return Tally(
            *({**getattr(self, column.name), **getattr(other, column.name)} for column in fields(self))
        )

    def of(self, run: int, table: str) -> Counter[str]:
        """Return the counts of one table of a run."""
        return self.counts.get((run, table), Counter())

    def texts(self, run: int, table: str) -> Mapping[str, Counter[str]]:
        """Return the counts of one table of a run, by text."""
        return self.by_text.get((run, table), {})

    def in_tp(self, run: int, table: str, tp: int) -> Counter[str] | None:
        """Return the counts of one table of a run in one partition. None: the table has no rows there."""
        return self.by_tp.get((run, table), {}).get(tp)

    def edge(self, run: int, table: str, tp: int, condition: str) -> tuple[int, int] | None:
        """Return the minimum and the maximum of `edge` over the rows of a partition that match a condition. None: no
        row matches.
        """
        return self.edges.get((run, table), {}).get((tp, condition))

    def any_row_matches(self, table: str, condition: str) -> bool:
        """True if any row of the table, of any run, matches the condition."""
        return any(count[condition] for (_, name), count in self.counts.items() if name == table)


EMPTY = Tally({}, {}, {}, {})


def tally(tables: Sequence[TableQuery]) -> Tally:
    """Run the queries as one. There must be at least one."""
    spark = tables[0].frame.sparkSession
    frames: dict[str, Any] = {f"part_{n}": _masked(query) for n, query in enumerate(tables)}
    united = " union all ".join(f"select * from {{{name}}}" for name in frames)
    rows = spark.sql(
        "select run, name, tp, text, mask, count(1) as rows, max(most) as most, "
        "min(edge) as least_edge, max(edge) as greatest_edge, "
        f"{', '.join(f'sum({column}) as {column}' for column in SUMS)} "
        f"from ({united}) group by run, name, tp, text, mask",
        **frames,
    )
    queries = {query.name: query for query in tables}
    return add_up(
        (row["name"], row, _counts(queries[row["name"]], row)) for row in rows.toArrow().to_pylist()
    )


def _masked(query: TableQuery) -> DataFrame:
    """Select the columns run, name, tp, text, mask, most, edge, and `SUMS`."""
    if len(query.conditions) > MOST or len(query.sums) > len(SUMS):
        raise ValueError(
            f"{query.name}: a table query can have at most {MOST} conditions and {len(SUMS)} sums"
        )
    summed = [*query.sums.values(), "0L", "0L"]
    bits = (f"if({condition}, {1 << n}L, 0L)" for n, condition in enumerate(query.conditions.values()))
    return query.frame.selectExpr(
        "run",
        f"'{query.name}' as name",
        f"cast({query.by_tp or NO_TP} as long) as tp",
        f"{query.text} as text",
        f"{' | '.join(bits) or '0L'} as mask",
        f"cast({query.most} as long) as most",
        f"cast({query.edge} as long) as edge",
        *(f"cast({number} as long) as {name}" for name, number in zip(SUMS, summed, strict=False)),
    )


def add_up(kinds: Iterable[tuple[str, Row, Counter[str]]]) -> Tally:
    """Add up the counts of groups of rows.

    Args:
        kinds: table name, row with run, tp, text, most (and perhaps least_edge and greatest_edge), and counts
    """
    counts: dict[tuple[int, str], Counter[str]] = defaultdict(Counter)
    by_tp: dict[tuple[int, str], dict[int, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    by_text: dict[tuple[int, str], dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    most: dict[tuple[int, str], int] = {}
    edges: dict[tuple[int, str], dict[tuple[int, str], tuple[int, int]]] = defaultdict(dict)
    for name, row, row_counts in kinds:
        key = row["run"], name
        counts[key].update(row_counts)
        by_text[key][row["text"]].update(row_counts)
        if row["tp"] != NO_TP:
            by_tp[key][row["tp"]].update(row_counts)
        if row["most"] is not None:
            most[key] = max(row["most"], most.get(key, row["most"]))
        if row.get("least_edge") is not None:
            for condition in row_counts:
                least, greatest = edges[key].get(
                    (row["tp"], condition), (row["least_edge"], row["greatest_edge"])
                )
                widened = min(least, row["least_edge"]), max(greatest, row["greatest_edge"])
                edges[key][row["tp"], condition] = widened
    return Tally(counts, by_tp, by_text, most, edges)


def _counts(query: TableQuery, row: Row) -> Counter[str]:
    counts = Counter({name: row["rows"] for n, name in enumerate(query.conditions) if row["mask"] >> n & 1})
    counts.update({name: row[column] or 0 for name, column in zip(query.sums, SUMS, strict=False)})
    counts["rows"] = row["rows"]
    return counts


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
    # `checkers.stored.small_tables.named_groups` decides from these counts whether a missing commit proves a loss.
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
