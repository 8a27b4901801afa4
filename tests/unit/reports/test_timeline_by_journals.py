from pathlib import Path
from typing import Any

import pytest

from harness.record.table_reader import RunTables
from harness.record.timeline import load
from harness.record.timeline.load import Ending
from reports.series import MOST_BUCKETS, Series, series
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


def read(folder: Path) -> Series:
    return series(load.load_from_journals(RunTables(folder)))


def missing(folder: Path) -> list[str]:
    return load.load_from_journals(RunTables(folder)).missing


def test_transactions_and_their_records_count_in_the_second_of_their_end(tmp_path: Path) -> None:
    rows = [op(900, 0.5), op(4, 2.1), op(7, 2.2), op(8, 2.3, "fail", asked="abort"), op(9, 2.9, "fail")]
    rows += [
        op(11, 3.5, "info", return_ns=None),
        op(12, 3.6, f="send"),
        op(13, 1.0, outcome=None, stage=None),
    ]
    write_table(tmp_path, "ops", rows)
    write_table(tmp_path, "sends", [{"op": number} for number in (900, 4, 4, 7, 8, 12, 5000)])
    sums = read(tmp_path)
    assert sums.committed == {0: 1, 2: 2}
    assert sums.records == {0: 1, 2: 3}
    assert {key: dict(counts) for key, counts in sums.outcomes.items()} == {
        ("shop", Ending.COMMITTED): {0: 1, 2: 2},
        ("shop", Ending.ABORTED_ON_PURPOSE): {2: 1},
        ("shop", Ending.FAILED): {2: 1},
        ("shop", Ending.UNKNOWN): {3: 1},
        ("no stage", Ending.UNKNOWN): {1: 1},
    }
    assert sums.quantile_ms(2, 0.5) == pytest.approx(20, rel=0.05)
    assert sums.quantile_ms(1, 0.5) is None
    assert missing(tmp_path) == []


def test_a_percentile_is_the_nearest_rank(tmp_path: Path) -> None:
    rows = [op(n, 1.9, commit_ns=1900 * MS - (1000 if n == 99 else 10) * MS) for n in range(100)]
    write_table(tmp_path, "ops", rows)
    write_table(tmp_path, "sends", [])
    sums = read(tmp_path)
    assert sums.quantile_ms(1, 0.99) == pytest.approx(10, rel=0.05)
    assert sums.quantile_ms(1, 1.0) == pytest.approx(1000, rel=0.05)


def test_a_long_run_gets_wider_buckets_and_loses_nothing(tmp_path: Path) -> None:
    write_table(tmp_path, "ops", [op(n, n * 10.0) for n in range(500)])
    write_table(tmp_path, "sends", [{"op": n} for n in range(500)])
    sums = read(tmp_path)
    assert sums.width_s == 60
    assert len(sums.buckets) <= MOST_BUCKETS
    assert sums.committed.total() == sums.records.total() == 500
    assert sum(bins.total() for bins in sums.latency.values()) == 500


def test_missing_and_damaged_tables_are_noted(tmp_path: Path) -> None:
    assert missing(tmp_path) == ["history/ops.parquet does not exist"]
    write_table(tmp_path, "ops", [op(1, 1.0)])
    assert missing(tmp_path) == ["history/sends.parquet does not exist"]
    assert read(tmp_path).committed.total() == 1
    (tmp_path / "history" / "ops.parquet").write_bytes(b"PAR1 no more")
    assert len(missing(tmp_path)) == 1
    write_table(tmp_path, "ends", [])
    (tmp_path / "history" / "ends.parquet").rename(tmp_path / "history" / "ops.parquet")
    assert "has no column op" in missing(tmp_path)[0]
