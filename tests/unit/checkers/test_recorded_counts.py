"""Counts of the recorded tables by PyArrow equal those of Spark."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cases import store
from pyspark.sql import SparkSession

from checkers.spark.frames import local_table
from checkers.stored.sources import Sources, read_columns, read_sources
from checkers.stored.tally import TableQuery, Tally, count_recorded, tally
from harness.common.errors import UnreadableInput
from harness.record.schema import HISTORY


def by_spark(s: Sources) -> Tally:
    """The definition."""
    without_journals = s["stages"].where("journaled = false")
    due = s["expected"].where("output_name is not null and correlation_key is null")
    offsets = {
        "within": "transactional",
        "unnamed": "op is null and transactional",
        "outside": "op is not null and not transactional",
    }
    return tally(
        [
            TableQuery("ops", s["ops"], {}, text="journal"),
            TableQuery("sends", s["sends"], {}, text="topic"),
            TableQuery("claims", s["claims"], {}),
            TableQuery("assignments", s["assignments"], {"given_up": "not gained"}),
            TableQuery("expected", s["expected"], {}, text="stage", by_tp="tp"),
            TableQuery("sums", s["expected"].where("adds is not null"), {}, text="topic"),
            TableQuery("due", s["expected"].where("adds is null"), {}, text="topic"),
            TableQuery("named", due.join(without_journals, ["run", "stage"], "left_semi"), {}, text="topic"),
            TableQuery("ended", s["records"].where("sentinel"), {}, most="timestamp_ms"),
            TableQuery("transactions", s["transactions"], {}, by_tp="log_tp"),
            TableQuery("offsets", s["offsets"], offsets, text="group"),
        ]
    )


def without_zeros(counts: Tally) -> Mapping[str, Any]:
    """Without the names of counts that are 0."""

    def stripped(found: Any) -> Any:
        if not isinstance(found, Mapping):
            return found
        return {key: stripped(value) for key, value in found.items() if value != 0}

    return {name: stripped(value) for name, value in vars(counts).items()}


@pytest.mark.parametrize("at_most", [0, 10**9])  # all of them stay files, or none does
def test_counts_of_all_cases_equal_those_of_spark(spark: SparkSession, tmp_path: Path, at_most: int) -> None:
    s = read_sources(spark, store(tmp_path), inline_rows=at_most)
    counts = without_zeros(count_recorded(s))
    assert counts == without_zeros(by_spark(s))
    assert {name for _, name in counts["counts"]} == {
        *("ops", "sends", "claims", "assignments", "expected", "ended", "transactions", "offsets"),
        *("due", "sums"),
    }


OFFSETS = [(op, transactional) for op in (None, 1) for transactional in (None, False, True)]


def test_counts_of_missing_values_equal_those_of_spark(spark: SparkSession) -> None:
    empty = {name: local_table(spark, schema.empty_table()) for name, schema in HISTORY.items()}
    expected = pa.table(
        {
            "run": pa.array([1] * 6 + [2], pa.int64()),
            "stage": ["kept", *["blind"] * 5, "blind"],
            "topic": ["x", "x", "x", None, "y", "y", "x"],
            "output_name": ["s", "s", None, "s", "s", "s", "s"],
            "correlation_key": [None, None, None, None, "k", None, None],
            "tp": pa.array([0, 0, 1, None, 1, 1, 0], pa.int32()),
            "adds": pa.array([None, None, 3, None, None, None, None], pa.int64()),
        }
    )
    stages = pa.table(
        {"run": [1, 1, 2], "stage": ["kept", "blind", "blind"], "journaled": [True, False, None]}
    )
    offsets = pa.table(
        {
            "run": pa.array([1] * len(OFFSETS), pa.int64()),
            "group": [None, *"aabbb"],
            "op": pa.array([op for op, _ in OFFSETS], pa.int64()),
            "transactional": pa.array([one for _, one in OFFSETS], pa.bool_()),
        }
    )
    transactions = pa.table(
        {
            "run": pa.array([1, 1], pa.int64()),
            "log_tp": pa.array([3, 3], pa.int32()),
        }
    )
    more = {"expected": expected, "stages": stages, "offsets": offsets, "transactions": transactions}
    s = {**empty, **{name: local_table(spark, table) for name, table in more.items()}}
    counts = count_recorded(s)
    assert without_zeros(counts) == without_zeros(by_spark(s))
    assert counts.texts(1, "named") == {"x": {"rows": 1}, None: {"rows": 1}, "y": {"rows": 1}}
    assert counts.of(1, "offsets") == {"within": 2, "unnamed": 1, "outside": 1, "rows": 6}


def test_a_column_that_a_file_lacks_and_a_damaged_page_are_named(spark: SparkSession, tmp_path: Path) -> None:
    (run, *_) = store(tmp_path)
    path = run.folder / "history" / "expected.parquet"
    table = pq.read_table(path)
    pq.write_table(table.drop_columns(["correlation_key"]), path)
    with pytest.raises(UnreadableInput, match="column correlation_key is missing"):
        read_sources(spark, [run], inline_rows=0)
    pq.write_table(table, path)
    frame = read_sources(spark, [run], inline_rows=0)["sends"]
    page = path.parent / "sends.parquet"
    body = page.read_bytes()
    page.write_bytes(body[:4] + b"\xff" * 60 + body[64:])  # the footer stays whole
    with pytest.raises(UnreadableInput, match=r"sends\.parquet is damaged"):
        list(read_columns(frame, ["run"]))
