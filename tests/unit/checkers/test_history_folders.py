"""Histories that were written straight to Parquet: on the disk, in many files, at a URL."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from plain.generate import random_history, to_jsonl
from pyspark.sql import SparkSession

from checkers.history_files import Histories, HistoryFile, read_histories
from checkers.history_folders import read_folders
from fencepost.stores import expand
from harness.history_files.schema import TABLES
from harness.history_files.url import Url, is_url


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Histories, Path]:
    """A history as it was read from its lines, and a folder of its tables."""
    place = tmp_path_factory.mktemp("with [odd] {name}*")
    (place / "h.jsonl").write_text(to_jsonl(random_history(Random(5), 40, {"duplicate"})))
    read = read_histories(spark, [HistoryFile(3, place / "h.jsonl")])
    (place / "tables").mkdir()
    for table, schema in TABLES.items():
        rows = getattr(read, table).toArrow().cast(schema)
        pq.write_table(rows, place / "tables" / f"{table}.parquet")
    shutil.copytree(place / "tables", place / "parts")
    for table in TABLES:
        one = place / "parts" / f"{table}.parquet"
        whole = pq.read_table(one)
        one.unlink()
        one.mkdir()
        for part, start in enumerate((0, whole.num_rows // 2)):
            pq.write_table(
                whole.slice(start, None if part else whole.num_rows // 2), one / f"part-{part}.parquet"
            )
    return read, place


def rows(read: Histories, table: str, run: int) -> list[str]:
    frame = getattr(read, table)
    columns = [column for column in frame.columns if column != "run"]
    return sorted(str(row.asDict()) for row in frame.where(f"run = {run}").select(*columns).collect())


def test_a_folder_is_read_wherever_it_lies(spark: SparkSession, written: tuple[Histories, Path]) -> None:
    lines, place = written
    forms: Mapping[int, Path | Url] = {
        7: place / "tables",
        8: Url(f"file://{place}/tables/"),
        9: place / "parts",
        10: Url(f"file://{place}/parts"),
    }
    read = read_folders(spark, [HistoryFile(run, path) for run, path in forms.items()])
    assert not read.errors
    for run in forms:
        for table in TABLES:
            assert rows(read, table, run) == rows(lines, table, 3), (run, table)


def test_what_is_wrong_with_a_folder_is_told_and_stops_no_other(
    spark: SparkSession, written: tuple[Histories, Path], tmp_path: Path
) -> None:
    _, place = written
    for name in ("lacking", "other", "no-parquet"):
        shutil.copytree(place / "tables", tmp_path / name)
    (tmp_path / "lacking" / "ops.parquet").unlink()
    (tmp_path / "no-parquet" / "ops.parquet").write_bytes(b"PAR1 and nothing else PAR1")
    pq.write_table(pa.table({"run": [1]}), tmp_path / "other" / "ops.parquet")
    wrong = {
        1: ("lacking", "cannot be read"),
        2: ("other", "is not the table that it should be"),
        3: ("no-parquet", "cannot be read"),
    }
    asked = [HistoryFile(run, tmp_path / name) for run, (name, _) in wrong.items()]
    asked += [HistoryFile(10 + run, Url(f"file://{tmp_path}/{name}")) for run, (name, _) in wrong.items()]
    asked += [HistoryFile(0, place / "tables"), HistoryFile(20, Url("nofs://bucket/history"))]
    read = read_folders(spark, asked)
    assert set(read.errors) == {1, 2, 3, 11, 12, 13, 20}
    for run, (name, words) in wrong.items():
        for number in (run, 10 + run):
            told = str(read.errors[number])
            assert f"{tmp_path}/{name}/ops.parquet" in told and words in told, told
            assert "\n" not in told
    assert "No FileSystem for scheme" in str(read.errors[20])
    assert {row.run for row in read.ops.select("run").distinct().collect()} == {0}


@pytest.mark.parametrize(
    "path", ["s3a://bucket/history", "file:///there", "hdfs://name:8020/there", "file:/x"]
)
def test_a_url_is_not_looked_for_on_the_disk(path: str) -> None:
    assert is_url(path)
    (given,) = expand(path)
    assert given.history == path and given.file == Url(path) and given.error is None


@pytest.mark.parametrize("path", ["store", "./a:b", "C:/x", "a/b://c", "x:y"])
def test_a_path_is_no_url(path: str) -> None:
    assert not is_url(path)


def test_a_url_has_a_name_and_parts() -> None:
    assert Url("s3a://bucket/night/h1/").name == "h1"
    assert (
        Url("s3a://bucket/h1/") / "ops.parquet"
        == Url("s3a://bucket/h1") / "ops.parquet"
        == "s3a://bucket/h1/ops.parquet"
    )
