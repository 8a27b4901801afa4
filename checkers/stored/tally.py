"""Count, in one query over several tables, the rows that match each of many conditions.

Most rows of a table match the same few combinations of conditions. Therefore each row gets a bit mask of the conditions
that it matches, and Spark counts the rows of each mask.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from pyspark.sql import DataFrame

NO_TP = -1
"""The partition of rows that are not counted by partition."""
MOST = 62
"""The greatest number of conditions on one table: the bits of a long, without its sign."""
SUMS = ("summed", "summed_too")
"""Columns for the sums of each table."""
Row = Mapping[str, Any]


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
