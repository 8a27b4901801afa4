from pathlib import Path
from typing import Any

import pytest

from reports.charts import series
from reports.charts.series import ABORT, FAIL, INFO, OK
from reports.run_tables import RunTables
from tests.support.synthetic_store import MS, write_table


def op(number: int, at_s: float, outcome: str = "ok", **changes: Any) -> dict[str, Any]:
    return_ns = int(at_s * 1000) * MS
    body = {
        "op": number,
        "stage": "shop",
        "f": "txn",
        "outcome": outcome,
        "asked": "commit",
        "return_ns": return_ns,
    }
    return body | {"call_ns": return_ns - 50 * MS, "commit_ns": return_ns - 20 * MS} | changes


def test_transactions_and_their_records_count_in_the_second_of_their_end(tmp_path: Path) -> None:
    rows = [op(900, 0.5), op(4, 2.1), op(7, 2.2), op(8, 2.3, "fail", asked="abort"), op(9, 2.9, "fail")]
    rows += [
        op(11, 3.5, "info", return_ns=None),
        op(12, 3.6, f="send"),
        op(13, 1.0, outcome=None, stage=None),
    ]
    write_table(tmp_path, "ops", rows)
    write_table(tmp_path, "sends", [{"op": number} for number in (900, 4, 4, 7, 8, 12, 5000)])
    read = series.read(RunTables(tmp_path))
    assert read.committed == {0: 1, 2: 2}
    assert read.records == {0: 1, 2: 3}
    assert {key: dict(counts) for key, counts in read.outcomes.items()} == {
        ("shop", OK): {0: 1, 2: 2},
        ("shop", ABORT): {2: 1},
        ("shop", FAIL): {2: 1},
        ("shop", INFO): {3: 1},
        ("no stage", INFO): {1: 1},
    }
    assert read.quantile_ms(2, 0.5) == pytest.approx(20, rel=0.05)
    assert read.quantile_ms(1, 0.5) is None
    assert read.missing == []


def test_a_percentile_is_the_nearest_rank(tmp_path: Path) -> None:
    rows = [op(n, 1.9, commit_ns=1900 * MS - (1000 if n == 99 else 10) * MS) for n in range(100)]
    write_table(tmp_path, "ops", rows)
    write_table(tmp_path, "sends", [])
    read = series.read(RunTables(tmp_path))
    assert read.quantile_ms(1, 0.99) == pytest.approx(10, rel=0.05)
    assert read.quantile_ms(1, 1.0) == pytest.approx(1000, rel=0.05)


def test_a_long_run_gets_wider_buckets_and_loses_nothing(tmp_path: Path) -> None:
    write_table(tmp_path, "ops", [op(n, n * 10.0) for n in range(500)])
    write_table(tmp_path, "sends", [{"op": n} for n in range(500)])
    read = series.read(RunTables(tmp_path))
    assert read.width_s == 60
    assert len(read.buckets) <= series.MOST_BUCKETS
    assert read.committed.total() == read.records.total() == 500
    assert sum(bins.total() for bins in read.latency.values()) == 500


def test_missing_and_damaged_tables_are_noted(tmp_path: Path) -> None:
    assert series.read(RunTables(tmp_path)).missing == ["history/ops.parquet does not exist"]
    write_table(tmp_path, "ops", [op(1, 1.0)])
    read = series.read(RunTables(tmp_path))
    assert (read.missing, read.committed.total()) == (["history/sends.parquet does not exist"], 1)
    (tmp_path / "history" / "ops.parquet").write_bytes(b"PAR1 no more")
    assert len(series.read(RunTables(tmp_path)).missing) == 1
    write_table(tmp_path, "ends", [])
    (tmp_path / "history" / "ends.parquet").rename(tmp_path / "history" / "ops.parquet")
    assert "has no column op" in series.read(RunTables(tmp_path)).missing[0]
