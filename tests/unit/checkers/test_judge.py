"""What judging promises beside the anomalies: crashes, damaged tables, and what an example holds."""

from pathlib import Path

import pytest
from histories import History, write
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from checkers import judge as judging
from checkers.judge import StoredRun, judge
from checkers.registry import Checker
from checkers.tables import Tables
from harness.errors import UnreadableInput


class Crashing(Checker):
    """A checker whose job fails."""

    def find(self, tables: Tables) -> DataFrame:
        return tables.tps.select(
            "run",
            F.lit("no-such-anomaly").alias("anomaly"),
            F.lit(False).alias("absence"),
            F.array(F.lit(0).cast("bigint")).alias("position"),
            F.array(F.lit(0).cast("bigint")).alias("ops"),
            F.raise_error(F.lit("out of cheese")).cast("string").alias("detail"),
        )


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    """A store in which input 0 of `a` was taken twice."""
    h = History()
    h.feed(1)
    h.take(0)
    h.take(0, worker="v", pid=2)
    return write(tmp_path, [(3, h)], log=True)


def test_a_checker_that_crashes_is_told_and_the_others_count(
    spark: SparkSession, wrong: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = tuple(c for c in judging.CHECKERS if c.module in ("reprocessed_input", "lost_write"))
    monkeypatch.setattr(judging, "CHECKERS", (Crashing("no_such_anomaly"), *few))
    judgement = judge(spark, [StoredRun(3, wrong)])[3]
    assert "out of cheese" in judgement.broken["no-such-anomaly"]
    assert judgement.anomalies["reprocessed-input"].count == 1


def test_an_example_tells_what_happened_to_a_record(
    spark: SparkSession, wrong: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = tuple(c for c in judging.CHECKERS if c.module == "reprocessed_input")
    monkeypatch.setattr(judging, "CHECKERS", few)
    (example,) = judge(spark, [StoredRun(3, wrong)])[3].anomalies["reprocessed-input"].examples
    assert example["input"] == {"topic": "a", "partition": 0, "offset": 0}
    first, second = example["records"]
    assert (first["topic"], first["offset"], first["value"]) == ("x", 0, "w:0:0")
    assert (second["offset"], second["producer_id"], second["fate"], second["marker_offset"]) == (
        2,
        2,
        "commit",
        3,
    )


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"PAR1 not quite")])
def test_a_missing_or_damaged_table_is_named(spark: SparkSession, wrong: Path, damage: object) -> None:
    damage(wrong / "log" / "batches.parquet")  # type: ignore[operator]
    with pytest.raises(UnreadableInput, match=r"log/batches\.parquet"):
        judge(spark, [StoredRun(3, wrong)])
