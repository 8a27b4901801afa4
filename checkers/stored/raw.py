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

from checkers.spark.checkpoint import collected
from checkers.stored.sources import Sources, columns
from checkers.stored.tally import NO_TP, Row, Tally, added_up


@dataclass(frozen=True)
class Asked:
    """What is asked of the rows of one table."""

    table: str
    of: Sequence[str] = ()  # the columns that `holds` looks at
    holds: Mapping[str, Callable[[pa.Table], Any]] = field(default_factory=dict)
    """By name, whether it holds for each row; null counts as no."""
    text: str = ""  # the column by which they are counted as well
    tp: str = ""  # the same, a partition
    most: str = ""  # the column of which the greatest is kept


def _unnamed(t: pa.Table) -> Any:
    return pc.invert(pc.and_kleene(pc.is_valid(t["op"]), t["transactional"]))


ASKED = (
    Asked("ops", text="journal"),
    Asked("sends", text="topic"),
    Asked("claims"),
    Asked("assignments", ("gained",), {"given_up": lambda t: pc.invert(t["gained"])}),
    Asked("expected", text="stage"),
    Asked("transactions", tp="log_tp", most="timeout_ms"),
    # Offset commits that are part of a transaction; and those that are not, or do not name their operation.
    Asked(
        "offsets",
        ("op", "transactional"),
        {"within": lambda t: t["transactional"], "unnamed": _unnamed},
        text="group",
    ),
)
Kinds = Iterator[tuple[str, Row, Counter[str]]]


def count_raw(s: Sources) -> Tally:
    """By run and table; `ended` are the sentinels among `records`, `named` the outputs in `expected` that name their
    inputs, of stages without journals, by the topic in which they are due.
    """
    kinds = [kind for asked in ASKED for kind in _kinds(s, asked)]
    return added_up([*kinds, *_ended(s), *_named(s)])


def _kinds(s: Sources, asked: Asked) -> Kinds:
    keys = [name for name in ("run", asked.text, asked.tp) if name]
    most = [asked.most] if asked.most else []
    for part in columns(s[asked.table], [*keys, *most, *asked.of]):
        counted = part
        for name, holds in asked.holds.items():
            counted = counted.append_column(name, holds(part).cast(pa.int64()))
        yield from map(partial(_kind, asked), _grouped(counted, keys, most, [*asked.holds]))


def _kind(asked: Asked, row: Row) -> tuple[str, Row, Counter[str]]:
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
    asked = Asked("ended", most="timestamp_ms")
    for part in columns(s["records"], ["run", "sentinel", "timestamp_ms"], where="sentinel"):
        yield from map(partial(_kind, asked), _grouped(part, ["run"], [asked.most]))


def _named(s: Sources) -> Kinds:
    asked = Asked("named", text="topic")
    unjournaled = {(row["run"], row["stage"]) for row in collected(s["stages"]) if row["journaled"] is False}
    if not unjournaled:
        return
    for part in columns(s["expected"], ["run", "stage", "topic", "slot", "about"]):
        due = part.filter(pc.and_(pc.is_valid(part["slot"]), pc.is_null(part["about"])))
        for row in _grouped(due, ["run", "stage", "topic"]):
            if (row["run"], row["stage"]) in unjournaled:
                yield _kind(asked, row)
