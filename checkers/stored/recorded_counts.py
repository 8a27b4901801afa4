"""What is counted of the recorded tables before anything is brought together.

It is counted here: all else waits for it, and Spark would take a second for its first query.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from checkers.spark.checkpoint import local_rows
from checkers.stored.sources import Sources, read_columns
from checkers.stored.tally import NO_TP, Row, Tally, add_up


@dataclass(frozen=True)
class CountQuery:
    """What is asked of the rows of one table."""

    table: str
    of: Sequence[str] = ()  # the columns that `holds` looks at
    holds: Mapping[str, Callable[[pa.Table], Any]] = field(default_factory=dict)
    """By name, whether it holds for each row; null counts as no."""
    text: str = ""  # the column by which they are counted as well
    tp: str = ""  # the same, a partition
    most: str = ""  # the column of which the greatest is kept


def _unnamed(t: pa.Table) -> Any:
    return pc.and_kleene(pc.is_null(t["op"]), t["transactional"])


def _outside(t: pa.Table) -> Any:
    return pc.and_kleene(pc.is_valid(t["op"]), pc.invert(t["transactional"]))


ASKED = (
    CountQuery("ops", text="journal"),
    CountQuery("sends", text="topic"),
    CountQuery("claims"),
    CountQuery("assignments", ("gained",), {"given_up": lambda t: pc.invert(t["gained"])}),
    CountQuery("expected", text="stage", tp="tp"),
    CountQuery("transactions", tp="log_tp", most="timeout_ms"),
    # Offset commits in a transaction; those of them that name no operation; those of operations outside transactions.
    CountQuery(
        "offsets",
        ("op", "transactional"),
        {"within": lambda t: t["transactional"], "unnamed": _unnamed, "outside": _outside},
        text="group",
    ),
)
Kinds = Iterator[tuple[str, Row, Counter[str]]]


def count_recorded(s: Sources) -> Tally:
    """By run and table. `ended` are the sentinels among `records`; `sums` and `due` the topics of expected sums and
    outputs; `named` the outputs in `expected` that name their inputs, of stages without journals, by topic.
    """
    kinds = [kind for asked in ASKED for kind in _kinds(s, asked)]
    return add_up([*kinds, *_ended(s), *_named(s), *_due(s)])


def _kinds(s: Sources, asked: CountQuery) -> Kinds:
    keys = [name for name in ("run", asked.text, asked.tp) if name]
    most = [asked.most] if asked.most else []
    for part in read_columns(s[asked.table], [*keys, *most, *asked.of]):
        counted = part
        for name, holds in asked.holds.items():
            counted = counted.append_column(name, holds(part).cast(pa.int64()))
        yield from map(partial(_kind, asked), _grouped(counted, keys, most, [*asked.holds]))


def _kind(asked: CountQuery, row: Row) -> tuple[str, Row, Counter[str]]:
    told = {
        "run": row["run"],
        "tp": row[asked.tp] if asked.tp else NO_TP,
        "text": row[asked.text] if asked.text else "",
        "most": row[f"{asked.most}_max"] if asked.most else None,
    }
    here = Counter({name: row[f"{name}_sum"] for name in asked.holds if row[f"{name}_sum"]})
    return asked.table, told, here + Counter(rows=row["count_all"])


def _grouped(
    part: pa.Table, keys: Sequence[str], most: Sequence[str] = (), sums: Sequence[str] = ()
) -> list[Row]:
    asked = [*((name, "max") for name in most), *((name, "sum") for name in sums), ([], "count_all")]
    rows: list[Row] = part.group_by(list(keys)).aggregate(asked).to_pylist()
    return rows


def _ended(s: Sources) -> Kinds:
    """The sentinels, and when the last of them was written."""
    asked = CountQuery("ended", most="timestamp_ms")
    for part in read_columns(s["records"], ["run", "sentinel", "timestamp_ms"], where="sentinel"):
        yield from map(partial(_kind, asked), _grouped(part, ["run"], [asked.most]))


@dataclass
class ReplicaOffsets:
    """What the batches of one replica say of the offsets that it holds."""

    first: int  # of its first batch
    next: int  # one above the last offset of its batches
    leads: bool = True  # every batch is said to be the leader's
    follows: bool = True  # none is
    records: int = 0
    offsets: int = 0  # that its batches span

    @property
    def whole(self) -> bool:
        """True if every offset from 0 on has a record or a marker: the log cleaner took nothing."""
        return self.first == 0 and self.records == self.offsets == self.next


def read_replica_offsets(s: Sources) -> dict[tuple[int, int, int], ReplicaOffsets]:
    """By run, partition and broker; a replica without batches is not there."""
    found: dict[tuple[int, int, int], ReplicaOffsets] = {}
    for part in read_columns(
        s["batches"], ["run", "tp", "broker", "leader", "base_offset", "last_offset", "count"]
    ):
        spans = pc.add(pc.subtract(part["last_offset"], part["base_offset"]), 1)
        asked = [("base_offset", "min"), ("last_offset", "max"), ("count", "sum"), ("offsets", "sum")]
        asked += [("leader", "min"), ("leader", "max")]
        counted = part.append_column("offsets", spans).group_by(["run", "tp", "broker"]).aggregate(asked)
        for row in counted.to_pylist():
            key = row["run"], row["tp"], row["broker"]
            held = found.setdefault(key, ReplicaOffsets(row["base_offset_min"], row["last_offset_max"] + 1))
            held.leads, held.follows = (
                held.leads and row["leader_min"],
                held.follows and not row["leader_max"],
            )
            held.first = min(held.first, row["base_offset_min"])
            held.next = max(held.next, row["last_offset_max"] + 1)
            held.records += row["count_sum"]
            held.offsets += row["offsets_sum"]
    return found


def _due(s: Sources) -> Kinds:
    """The expected sums, and the expected outputs, by the topic in which they are due."""
    for part in read_columns(s["expected"], ["run", "topic", "adds"]):
        sums = pc.is_valid(part["adds"])
        for name, rows in (("sums", part.filter(sums)), ("due", part.filter(pc.invert(sums)))):
            yield from map(partial(_kind, CountQuery(name, text="topic")), _grouped(rows, ["run", "topic"]))


def _named(s: Sources) -> Kinds:
    asked = CountQuery("named", text="topic")
    unjournaled = {(row["run"], row["stage"]) for row in local_rows(s["stages"]) if row["journaled"] is False}
    if not unjournaled:
        return
    for part in read_columns(s["expected"], ["run", "stage", "topic", "output_name", "correlation_key"]):
        due = part.filter(pc.and_(pc.is_valid(part["output_name"]), pc.is_null(part["correlation_key"])))
        for row in _grouped(due, ["run", "stage", "topic"]):
            if (row["run"], row["stage"]) in unjournaled:
                yield _kind(asked, row)
