"""Functions that processes of this machine apply to files give what Spark's tasks give, and fail as those do."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import orjson
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from checkers.histories import processes, read_files, table
from checkers.histories.files import HistoryFile
from checkers.histories.read_files import Reading
from checkers.histories.table import Batches, BatchFunction, FileTable, HistoryTable, SparkTable
from harness.common.errors import AnalysisFailed, UnreadableInput
from harness.common.waiting import wait_for
from harness.record.history_form import MICRO
from tests.support.micro import micro_table, send_row

SUM = pa.schema([("group", pa.int64()), ("size", pa.int64())])
NUMBERED = pa.schema([("group", pa.int32()), ("rows", pa.binary())])
pytestmark = pytest.mark.processes


@pytest.fixture(autouse=True)
def never_here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every call gets a process."""
    monkeypatch.setattr(table, "HERE_BYTES", 0)
    monkeypatch.setattr(read_files, "LEAST_BYTES", 0)
    with processes.using_processes():
        yield


def micro_files(folder: Path) -> FileTable:
    """Forty records in six row groups of one file, and one in another, whose history is number 5."""
    rows = micro_table(*(send_row(op, op, op) for op in range(40))).drop(["committed"])
    pq.write_table(rows, folder / "micro.parquet", row_group_size=7)
    pq.write_table(rows.slice(0, 1), folder / "other.parquet")
    return FileTable(MICRO, [(0, folder / "micro.parquet"), (5, folder / "other.parquet")])


# Functions of this module would be pickled by name, and other processes cannot import it.


def make_deal() -> BatchFunction:
    def deal(batches: Batches) -> Batches:
        """A group for each history and last digit of the operation."""
        for rows in batches:
            for run, op in zip(rows["run"].to_pylist(), rows["op"].to_pylist(), strict=True):
                yield pa.RecordBatch.from_pydict(
                    {"group": [10 * run + op % 10], "rows": [b"x" * op]}, numbered
                )

    numbered = NUMBERED
    return deal


def make_sum() -> BatchFunction:
    def summed(batches: Batches) -> Batches:
        sizes: dict[int, int] = {}
        for rows in batches:
            for group, value in zip(rows["group"].to_pylist(), rows["rows"].to_pylist(), strict=True):
                sizes[group] = sizes.get(group, 0) + len(value)
        yield pa.RecordBatch.from_pydict({"group": list(sizes), "size": list(sizes.values())}, form)

    form = SUM
    return summed


@pytest.mark.parametrize("groups", [None, 51])
def test_a_group_has_all_its_rows(spark: SparkSession, tmp_path: Path, groups: int | None) -> None:
    of_files = micro_files(tmp_path)

    def sums(rows: HistoryTable) -> list[dict[str, int]]:
        found = rows.in_tasks(make_deal(), NUMBERED, ["run", "op"]).by_group(make_sum(), SUM, groups).rows()
        return sorted(found.to_pylist(), key=lambda row: row["group"])

    of_spark = sums(SparkTable(of_files.frame()))
    assert sums(of_files) == of_spark
    assert [row["group"] for row in of_spark] == [*range(10), 50]
    assert of_spark[3]["size"] == 3 + 13 + 23 + 33


def test_a_result_is_a_table_for_spark(spark: SparkSession, tmp_path: Path) -> None:
    struct = pa.schema([("part", pa.struct([("op", pa.int64())])), ("other", pa.int64())])

    def halves(batches: Batches) -> Batches:
        for rows in batches:
            ops = rows["op"].to_pylist()
            yield pa.RecordBatch.from_pydict(
                {"part": [{"op": op} if op % 2 else None for op in ops], "other": ops}, struct
            )

    part = micro_files(tmp_path).in_tasks(halves, struct, ["run", "op"]).part("part")
    odd = sorted(part.rows()["op"].to_pylist())
    assert odd == [op for op in range(40) if op % 2]
    assert sorted(row.op for row in part.frame().collect()) == odd


def test_processes_parse_the_same_rows_as_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = [
        {"process": 0, "type": kind, "f": "txn", "value": [["send", key, [at, at] if kind == "ok" else at]]}
        for at in range(40)
        for key in "ab"
        for kind in ("invoke", "ok")
    ]
    (tmp_path / "h.jsonl").write_bytes(b"".join(orjson.dumps(event) + b"\n" for event in events))

    def read() -> pa.Table:
        rows = Reading([HistoryFile(3, tmp_path / "h.jsonl")], 2_000).result().tables().micro.rows()
        return rows.sort_by([("op", "ascending")])

    with_processes = read()
    monkeypatch.setattr(read_files, "LEAST_BYTES", 1 << 20)
    assert read() == with_processes
    assert len(with_processes) == 80


def test_an_error_in_a_process_is_that_of_the_check(tmp_path: Path) -> None:
    def crash(batches: Batches) -> Batches:
        raise ValueError(f"out of cheese in {next(batches).num_rows} rows")

    with pytest.raises(AnalysisFailed, match="the analysis failed: out of cheese in 7 rows"):
        micro_files(tmp_path).in_tasks(crash, SUM)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    files = micro_files(tmp_path)
    path = tmp_path / "micro.parquet"
    data = bytearray(path.read_bytes())
    data[4:300] = bytes(296)
    path.write_bytes(data)
    with pytest.raises(UnreadableInput, match=r"micro\.parquet is damaged: a part of it cannot be read"):
        files.in_tasks(make_deal(), NUMBERED)


def test_a_process_that_dies_fails_its_check_and_says_why(tmp_path: Path) -> None:
    def die(batches: Batches) -> Batches:
        sys.stderr.write("no cheese\n")
        sys.stderr.flush()
        os.kill(os.getpid(), signal.SIGKILL)
        yield from batches

    with pytest.raises(AnalysisFailed, match="too little memory: no cheese"):
        micro_files(tmp_path).in_tasks(die, MICRO)
    processes.end_processes()
    assert len(micro_files(tmp_path).in_tasks(make_deal(), NUMBERED, ["run", "op"]).rows()) == 41


def test_whoever_waits_gets_an_error_when_the_processes_end() -> None:
    waiting = processes.processes().submit(signal.pause)
    processes.end_processes()
    with pytest.raises(AnalysisFailed, match="has ended"):
        waiting.result(20)


def test_a_process_ends_with_the_one_that_started_it() -> None:
    program = (
        "import os; from checkers.histories.processes import new_folder, processes; "
        "print(processes().submit(os.getpid).result(), new_folder(here=False).name, flush=True); "
        "os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    pid, folder = done.stdout.split()
    wait_for(lambda: not psutil.pid_exists(int(pid)), f"the end of process {pid}", 10)
    wait_for(lambda: not Path(folder).exists(), f"the end of {folder}", 10)
