"""Histories that were written straight to Parquet: on the disk, in many files, at a URL."""

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from checkers.histories.by_key import collect_pieces
from checkers.histories.files import HistoryFile, Url, is_url
from checkers.histories.processes import TaskProcesses
from checkers.histories.read_files import Histories, read_texts
from checkers.histories.read_folders import read_folders
from checkers.histories.table import FileTable, HistoryTable, SparkTable
from checkers.histories.tables import make_pieces
from fencepost.checks.histories import check_history_files
from fencepost.checks.run_folders import find_histories
from harness.common.errors import UnreadableInput
from harness.record.history_form import FAIL, MICRO, NAMES, OK, OPS, TABLES
from harness.results.verdict import Verdict
from tests.reference.generate import random_history, to_jsonl
from tests.support.micro import micro_table, poll_row, send_row


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Histories, Path]:
    """A history as it was read from its lines, and a folder of its tables."""
    folder = tmp_path_factory.mktemp("with [odd] {name}*")
    (folder / "h.jsonl").write_text(to_jsonl(random_history(Random(5), 40, {"duplicate"})))
    read = read_texts([HistoryFile(3, folder / "h.jsonl")], TaskProcesses())
    (folder / "tables").mkdir()
    for name, schema in TABLES.items():
        rows = getattr(read, name).frame().toArrow().cast(schema)
        pq.write_table(rows, folder / "tables" / f"{name}.parquet")
    shutil.copytree(folder / "tables", folder / "parts")
    for name in TABLES:
        one = folder / "parts" / f"{name}.parquet"
        whole = pq.read_table(one)
        one.unlink()
        one.mkdir()
        for part, start in enumerate((0, whole.num_rows // 2)):
            pq.write_table(
                whole.slice(start, None if part else whole.num_rows // 2), one / f"part-{part}.parquet"
            )
    return read, folder


def rows(read: Histories, name: str, run: int) -> list[str]:
    frame = getattr(read, name).frame()
    columns = [column for column in frame.columns if column != "run"]
    return sorted(str(row.asDict()) for row in frame.where(f"run = {run}").select(*columns).collect())


def test_a_folder_is_read_wherever_it_lies(spark: SparkSession, written: tuple[Histories, Path]) -> None:
    lines, folder = written
    forms: Mapping[int, Path | Url] = {
        7: folder / "tables",
        8: Url(f"file://{folder}/tables/"),
        9: folder / "parts",
        10: Url(f"file://{folder}/parts"),
    }
    read = read_folders(
        lambda: spark, [HistoryFile(run, path) for run, path in forms.items()], TaskProcesses()
    )
    assert not read.errors
    for run in forms:
        for name in TABLES:
            assert rows(read, name, run) == rows(lines, name, 3), (run, name)


def test_an_error_in_a_folder_is_reported_and_stops_no_other(
    spark: SparkSession, written: tuple[Histories, Path], tmp_path: Path
) -> None:
    _, folder = written
    for name in ("lacking", "other", "no-parquet"):
        shutil.copytree(folder / "tables", tmp_path / name)
    (tmp_path / "lacking" / "ops.parquet").unlink()
    (tmp_path / "no-parquet" / "ops.parquet").write_bytes(b"PAR1 and nothing else PAR1")
    pq.write_table(pa.table({"run": [1]}), tmp_path / "other" / "ops.parquet")
    wrong = {
        1: ("lacking", "cannot be read"),
        2: ("other", "does not have the expected columns"),
        3: ("no-parquet", "cannot be read"),
    }
    history_files = [HistoryFile(run, tmp_path / name) for run, (name, _) in wrong.items()]
    history_files += [
        HistoryFile(10 + run, Url(f"file://{tmp_path}/{name}")) for run, (name, _) in wrong.items()
    ]
    history_files += [HistoryFile(0, folder / "tables"), HistoryFile(20, Url("nofs://bucket/history"))]
    read = read_folders(lambda: spark, history_files, TaskProcesses())
    assert set(read.errors) == {1, 2, 3, 11, 12, 13, 20}
    for run, (name, words) in wrong.items():
        for number in (run, 10 + run):
            message = str(read.errors[number])
            assert f"{tmp_path}/{name}/ops.parquet" in message and words in message, message
            assert "\n" not in message
    assert "No FileSystem for scheme" in str(read.errors[20])
    assert {row.run for row in read.ops.frame().select("run").distinct().collect()} == {0}


@pytest.mark.parametrize(
    "path", ["s3a://bucket/history", "file:///there", "hdfs://name:8020/there", "file:/x"]
)
def test_a_url_is_not_looked_for_on_the_disk(path: str) -> None:
    assert is_url(path)
    (given,) = find_histories(path)
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


def rows_of(pieces: HistoryTable) -> pa.Table:
    dealt, _ = collect_pieces(iter(pieces.rows().to_batches()))
    return dealt


def test_files_have_the_same_rows_as_spark(spark: SparkSession, tmp_path: Path) -> None:
    given_rows = micro_table(
        *(send_row(n, n, n, FAIL if n % 3 == 0 else OK) for n in range(40)), poll_row(41, 7, 7)
    )
    micro = given_rows.drop(["committed"])
    pq.write_table(micro, tmp_path / "micro.parquet", row_group_size=7)
    of_spark = make_pieces(SparkTable(spark.createDataFrame(micro)), certain=True)
    of_files = make_pieces(FileTable(MICRO, [(0, tmp_path / "micro.parquet")], TaskProcesses()), certain=True)
    dealt, of_both = (sorted(map(str, rows_of(pieces).to_pylist())) for pieces in (of_spark, of_files))
    assert of_both == dealt == sorted(map(str, given_rows.to_pylist()))
    renumbered = make_pieces(
        FileTable(MICRO, [(5, tmp_path / "micro.parquet")], TaskProcesses()), certain=True
    )
    assert rows_of(renumbered)["run"].unique().to_pylist() == [5]


@pytest.mark.processes
def test_a_file_of_one_row_group_is_shared_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = micro_table(*(send_row(n, n, n) for n in range(41))).drop(["committed"])
    pq.write_table(rows, tmp_path / "micro.parquet")
    form = pa.schema([MICRO.field("run"), MICRO.field("op")])

    def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    monkeypatch.setattr("checkers.histories.table.HERE_BYTES", 1)
    monkeypatch.setattr("checkers.histories.table.LEAST_TASK_BYTES", 1)
    with TaskProcesses(4) as pool:
        shared = FileTable(MICRO, [(0, tmp_path / "micro.parquet")], pool).in_tasks(same, form, ["run", "op"])
        assert sorted(shared.rows()["op"].to_pylist()) == list(range(41))
        assert len(shared.files) == 4
        assert all(len(FileTable(form, [file], pool).rows()) in {8, 11} for file in shared.files)


def test_a_history_without_records_is_read(spark: SparkSession, tmp_path: Path) -> None:
    events = [{"process": 0, "type": kind, "f": "assign", "value": [1]} for kind in ("invoke", "ok")]
    (tmp_path / "h.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    (verdict,) = check_history_files(spark, [tmp_path / "h.jsonl"], frozenset())
    assert isinstance(verdict, Verdict)
    assert "nothing was read" in verdict.summary, verdict.summary


@pytest.mark.parametrize("damaged", ["ops", "micro"])
def test_a_table_with_damaged_pages_is_reported(spark: SparkSession, tmp_path: Path, damaged: str) -> None:
    micro = micro_table(send_row(2, 1, 0), poll_row(4, 1, 0)).drop(["committed"])
    ops = [{"run": 0, "op": op, "process": op, "f": "txn", "outcome": OK, "invoked": op - 1} for op in (2, 4)]
    for name, rows in (("ops", pa.Table.from_pylist(ops, OPS)), ("micro", micro), ("names", None)):
        pq.write_table(rows or NAMES.empty_table(), tmp_path / f"{name}.parquet")
    (sound,) = check_history_files(spark, [tmp_path], frozenset())
    assert isinstance(sound, Verdict)
    path = tmp_path / f"{damaged}.parquet"
    body = path.read_bytes()
    footer = int.from_bytes(body[-8:-4], "little") + 8
    path.write_bytes(body[:4] + b"\xff" * (len(body) - 4 - footer) + body[-footer:])
    (answer,) = check_history_files(spark, [tmp_path], frozenset())
    assert isinstance(answer, UnreadableInput)
    assert f"{damaged}.parquet is damaged" in str(answer)
