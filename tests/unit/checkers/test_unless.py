"""Some rules are not asked where something cheaper holds: a finding in such a row would be lost."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations_with_replacement, product
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from checkers.anomalies.lost_input import LACKING
from checkers.findings.rules import Rule
from checkers.registry import STORE_CHECKERS
from checkers.stored.inputs import PLAIN
from checkers.stored.tables import Tables


def spared(tables: Any) -> list[Rule]:
    return [rule for checker in STORE_CHECKERS for rule in checker.rules(tables) if rule.unless]


def holds(rule: Rule) -> str:
    """Without what spares it."""
    return replace(rule, unless="").holds


def test_of_all_cases_no_finding_is_spared(tables: Tables) -> None:
    rules = spared(tables)
    assert {rule.table for rule in rules} == {"inputs", "operations", "values"}
    for rule in rules:
        frame: DataFrame = getattr(tables, rule.table)
        unless, found = f"coalesce({rule.unless}, false)", f"coalesce({holds(rule)}, false)"
        row = frame.selectExpr(
            f"count_if({unless} and {found}) as lost",
            f"count_if({unless}) as spared",
            f"count_if({found}) as found",
        ).collect()[0]
        assert row["lost"] == 0, rule
        assert row["spared"], f"{rule} is never spared"
        assert row["found"], f"no case has a finding of {rule}"


EXPECTED = [
    ("a", "x", 1, "g"),
    ("a", "x", 2, "g"),
    ("b", "x", 1, "g"),
    (None, "x", 1, "g"),
    ("a", "x", 1, "h"),
    ("a", "y", 1, "g"),
]
"""Slot, topic, digest, group."""
OUTPUTS = [
    *((slot, "x", digest, True, 1) for slot in ("a", "b", None) for digest in (1, 2, None)),
    ("a", "y", 1, True, 1),
    ("a", "x", 1, False, 1),
    ("a", "x", 1, True, 2),
]
"""Slot, topic, digest, visible, op."""
CLAIMS = [(1, "g"), (2, "g"), (1, "h"), (1, None)]
"""Op, group."""


def at_most_two(of: Sequence[Any]) -> list[tuple[Any, ...]]:
    return [some for size in range(3) for some in combinations_with_replacement(of, size)]


def outputs(some: Sequence[Any], names: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {
            "slot": slot, "topic": topic, "tp": 9, "offset": n, "name": names[n], "op": op, "visible": visible,
            "digest": digest, "sole": True, "claims": True,
        }
        for n, (slot, topic, digest, visible, op) in enumerate(some)
    ]  # fmt: skip


def small_inputs() -> list[dict[str, Any]]:
    """Every input with at most two outputs due, two there, and two operations that claim it."""
    return [
        {
            "expected": [
                {"slot": slot, "topic": topic, "group": group, "stage": "s", "digest": digest, "via": None}
                for slot, topic, digest, group in due
            ],
            "outputs": outputs(there, names),
            "claims": [
                {"op": op, "group": group, "settled": "committed", "transactional": True, "writes": True}
                for op, group in by
            ],
        }
        for due, there, by in product(at_most_two(EXPECTED), at_most_two(OUTPUTS), at_most_two(CLAIMS))
        for names in ({("v", "w"), ("v", "v")} if len(there) == 2 else {("v", "w")})
    ]


def test_no_plain_input_has_a_finding(spark: SparkSession, tmp_path: Path) -> None:
    text, number, flag = pa.string(), pa.int64(), pa.bool_()
    due = {"slot": text, "topic": text, "group": text, "stage": text, "digest": number, "via": text}
    there = {
        "slot": text, "topic": text, "tp": number, "offset": number, "name": text, "op": number, "visible": flag,
        "digest": number, "sole": flag, "claims": flag,
    }  # fmt: skip
    by = {"op": number, "group": text, "settled": text, "transactional": flag, "writes": flag}
    lists = {
        name: pa.list_(pa.struct(list(of.items())))
        for name, of in (("expected", due), ("outputs", there), ("claims", by))
    }
    rows = small_inputs()
    frame = spark.createDataFrame(pa.Table.from_pylist(rows, pa.schema(list(lists.items())))).selectExpr(
        "*",
        "true as visible",
        "'commit' as fate",
        "true as judgeable",
        "cast(array() as array<string>) as lenient",
        "cast(array() as array<string>) as unasked",
        "true as owing",
    )
    rules = [rule for checker in STORE_CHECKERS for rule in checker.rules(_Runs()) if rule.table == "inputs"]
    spared_rules = [rule for rule in rules if rule.unless == "plain"]
    assert {rule.anomaly for rule in spared_rules} == {
        "corrupt",
        "offset-output-mismatch",
        "phantom",
        "reprocessed-input",
    }
    found = [*map(holds, spared_rules), f"size({LACKING}) > 0"]
    counts = frame.selectExpr(f"coalesce({PLAIN}, false) as plain", "*").selectExpr(
        "count_if(plain) as spared",
        *(f"count_if(coalesce({one}, false)) as found_{n}" for n, one in enumerate(found)),
        *(f"count_if(plain and coalesce({one}, false)) as lost_{n}" for n, one in enumerate(found)),
    )
    row = counts.collect()[0].asDict()
    assert {name: count for name, count in row.items() if name.startswith("lost") and count} == {}
    assert all(row[f"found_{n}"] for n in range(len(found))), row
    assert 0 < row["spared"] < len(rows) / 10


class _Runs:
    """Stands for tables of stored runs where only their kind is asked."""

    suffix = ""
