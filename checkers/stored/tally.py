"""One pass over several tables: of how many rows each of many conditions holds.

Whatever is to be counted of tables that are there together is asked in one query. Most rows of a table are of the same
few kinds, a kind being which conditions hold; so the kinds are counted, as numbers with a bit for each condition.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from pyspark.sql import DataFrame

NO_TP = -1
"""In the place of a partition where rows are not counted by partition."""
MOST = 62
"""Conditions of one table: the bits of a long, without its sign."""
SUMS = ("summed", "summed_too")
"""Columns for what is added up of each table."""
Row = Mapping[str, Any]


@dataclass(frozen=True)
class TableQuery:
    """What is asked of the rows of one table."""

    name: str  # of the table, or of that part of it
    frame: DataFrame
    conditions: Mapping[str, str]  # by name, in SQL; null counts as no
    by_tp: str = ""  # the column with the partition by which they are counted; empty: by none
    sums: Mapping[str, str] = field(
        default_factory=dict
    )  # by name, numbers of each row that are added up as well
    most: str = "cast(null as long)"  # a number of each row, of which the greatest is kept
    edge: str = (
        "cast(null as long)"  # a number of each row; of each condition the least and the greatest are kept
    )
    text: str = "''"  # a text by which they are counted as well


@dataclass(frozen=True)
class Tally:
    """The answer: counts by run and table. Those of a table are how many `rows` it has, of how many each condition
    holds, and its sums.
    """

    counts: Mapping[tuple[int, str], Counter[str]]
    by_tp: Mapping[tuple[int, str], Mapping[int, Counter[str]]]
    by_text: Mapping[tuple[int, str], Mapping[str, Counter[str]]]
    most: Mapping[tuple[int, str], int]
    edges: Mapping[tuple[int, str], Mapping[tuple[int, str], tuple[int, int]]] = field(
        default_factory=dict
    )  # by partition and condition: the least and the greatest `edge` of the rows for which it holds

    def __or__(self, other: "Tally") -> "Tally":
        """Both, of different tables."""
        return Tally(*({**getattr(self, one.name), **getattr(other, one.name)} for one in fields(self)))

    def of(self, run: int, table: str) -> Counter[str]:
        """The counts of one table of a run."""
        return self.counts.get((run, table), Counter())

    def texts(self, run: int, table: str) -> Mapping[str, Counter[str]]:
        """The same, by text."""
        return self.by_text.get((run, table), {})

    def in_tp(self, run: int, table: str, tp: int) -> Counter[str] | None:
        """The same of one partition; None: there are no rows of it."""
        return self.by_tp.get((run, table), {}).get(tp)

    def edge(self, run: int, table: str, tp: int, condition: str) -> tuple[int, int] | None:
        """The least and the greatest `edge` of the rows of a partition for which it holds; None: there are none."""
        return self.edges.get((run, table), {}).get((tp, condition))

    def any_row_matches(self, table: str, condition: str) -> bool:
        """Whether it holds for any row of the table, whatever its run."""
        return any(count[condition] for (_, name), count in self.counts.items() if name == table)


EMPTY = Tally({}, {}, {}, {})


def tally(tables: Sequence[TableQuery]) -> Tally:
    """Ask it, of one table at least."""
    spark = tables[0].frame.sparkSession
    frames: dict[str, Any] = {f"part_{n}": _masked(one) for n, one in enumerate(tables)}
    united = " union all ".join(f"select * from {{{name}}}" for name in frames)
    rows = spark.sql(
        "select run, name, tp, text, mask, count(1) as rows, max(most) as most, "
        "min(edge) as least_edge, max(edge) as greatest_edge, "
        f"{', '.join(f'sum({one}) as {one}' for one in SUMS)} "
        f"from ({united}) group by run, name, tp, text, mask",
        **frames,
    )
    asked = {one.name: one for one in tables}
    return add_up((row["name"], row, _counts(asked[row["name"]], row)) for row in rows.toArrow().to_pylist())


def _masked(one: TableQuery) -> DataFrame:
    """run, name, tp, text, mask, most, edge, and SUMS."""
    if len(one.conditions) > MOST or len(one.sums) > len(SUMS):
        raise ValueError(
            f"{one.name}: of one table {MOST} conditions and {len(SUMS)} sums are counted at most"
        )
    summed = [*one.sums.values(), "0L", "0L"]
    bits = (f"if({condition}, {1 << n}L, 0L)" for n, condition in enumerate(one.conditions.values()))
    return one.frame.selectExpr(
        "run",
        f"'{one.name}' as name",
        f"cast({one.by_tp or NO_TP} as long) as tp",
        f"{one.text} as text",
        f"{' | '.join(bits) or '0L'} as mask",
        f"cast({one.most} as long) as most",
        f"cast({one.edge} as long) as edge",
        *(f"cast({number} as long) as {name}" for name, number in zip(SUMS, summed, strict=False)),
    )


def add_up(kinds: Iterable[tuple[str, Row, Counter[str]]]) -> Tally:
    """What is known of kinds of rows, each with its table: run, tp, text, most; and what it adds to the counts."""
    counts: dict[tuple[int, str], Counter[str]] = defaultdict(Counter)
    by_tp: dict[tuple[int, str], dict[int, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    by_text: dict[tuple[int, str], dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    most: dict[tuple[int, str], int] = {}
    edges: dict[tuple[int, str], dict[tuple[int, str], tuple[int, int]]] = defaultdict(dict)
    for name, row, here in kinds:
        key = row["run"], name
        counts[key].update(here)
        by_text[key][row["text"]].update(here)
        if row["tp"] != NO_TP:
            by_tp[key][row["tp"]].update(here)
        if row["most"] is not None:
            most[key] = max(row["most"], most.get(key, row["most"]))
        if row.get("least_edge") is not None:
            for condition in here:
                least, greatest = edges[key].get(
                    (row["tp"], condition), (row["least_edge"], row["greatest_edge"])
                )
                found = min(least, row["least_edge"]), max(greatest, row["greatest_edge"])
                edges[key][row["tp"], condition] = found
    return Tally(counts, by_tp, by_text, most, edges)


def _counts(one: TableQuery, row: Row) -> Counter[str]:
    """What one kind of row adds to the counts of its table."""
    here = Counter({name: row["rows"] for n, name in enumerate(one.conditions) if row["mask"] >> n & 1})
    here.update({name: row[column] or 0 for name, column in zip(one.sums, SUMS, strict=False)})
    here["rows"] = row["rows"]
    return here
