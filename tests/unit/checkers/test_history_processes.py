"""Functions that processes of this machine apply to files give what Spark's tasks give, and fail as those do."""

import errno
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from threading import Thread, active_count
from types import SimpleNamespace

import orjson
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from checkers.histories import read_files, table
from checkers.histories.files import HistoryFile
from checkers.histories.processes import MEMORY_MB, TaskProcesses, kill_processes
from checkers.histories.read_files import read_texts
from checkers.histories.table import Batches, BatchFunction, FileTable, HistoryTable, SparkTable
from fencepost.checks.histories import check_history_files
from harness.common import machine
from harness.common.errors import AnalysisFailed, UnreadableInput
from harness.common.waiting import wait_for
from harness.record.history_form import MICRO
from harness.results.verdict import Verdict
from tests.reference.generate import random_history, to_jsonl
from tests.support.micro import micro_table, send_row

SUM = pa.schema([("group", pa.int64()), ("size", pa.int64())])
NUMBERED = pa.schema([("group", pa.int32()), ("rows", pa.binary())])
pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def pool() -> Iterator[TaskProcesses]:
    """Processes that get even the smallest tables."""
    with pytest.MonkeyPatch.context() as patch, TaskProcesses() as started:
        patch.setattr(table, "HERE_BYTES", 0)
        patch.setattr(table, "LEAST_TASK_BYTES", 1)
        patch.setattr(read_files, "LEAST_BYTES", 0)
        yield started


def micro_files(folder: Path, pool: TaskProcesses) -> FileTable:
    """Forty records in six row groups of one file, and one in another, whose history is number 5."""
    rows = micro_table(*(send_row(op, op, op) for op in range(40))).drop(["committed"])
    pq.write_table(rows, folder / "micro.parquet", row_group_size=7)
    pq.write_table(rows.slice(0, 1), folder / "other.parquet")
    return FileTable(MICRO, [(0, folder / "micro.parquet"), (5, folder / "other.parquet")], pool)


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
def test_a_group_has_all_its_rows(
    spark: SparkSession, tmp_path: Path, pool: TaskProcesses, groups: int | None
) -> None:
    of_files = micro_files(tmp_path, pool)

    def sums(rows: HistoryTable) -> list[dict[str, int]]:
        found = rows.in_tasks(make_deal(), NUMBERED, ["run", "op"]).by_group(make_sum(), SUM, groups).rows()
        return sorted(found.to_pylist(), key=lambda row: row["group"])

    of_spark = sums(SparkTable(of_files.frame()))
    assert sums(of_files) == of_spark
    assert [row["group"] for row in of_spark] == [*range(10), 50]
    assert of_spark[3]["size"] == 3 + 13 + 23 + 33


def test_a_result_is_a_table_for_spark(spark: SparkSession, tmp_path: Path, pool: TaskProcesses) -> None:
    struct = pa.schema([("part", pa.struct([("op", pa.int64())])), ("other", pa.int64())])

    def halves(batches: Batches) -> Batches:
        for rows in batches:
            ops = rows["op"].to_pylist()
            yield pa.RecordBatch.from_pydict(
                {"part": [{"op": op} if op % 2 else None for op in ops], "other": ops}, struct
            )

    part = micro_files(tmp_path, pool).in_tasks(halves, struct, ["run", "op"]).part("part")
    odd = sorted(part.rows()["op"].to_pylist())
    assert odd == [op for op in range(40) if op % 2]
    assert sorted(row.op for row in part.frame().collect()) == odd


def test_processes_parse_the_same_rows_as_this_one(
    tmp_path: Path, pool: TaskProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = [
        {"process": 0, "type": kind, "f": "txn", "value": [["send", key, [at, at] if kind == "ok" else at]]}
        for at in range(40)
        for key in "ab"
        for kind in ("invoke", "ok")
    ]
    (tmp_path / "h.jsonl").write_bytes(b"".join(orjson.dumps(event) + b"\n" for event in events))

    def read() -> pa.Table:
        rows = read_texts([HistoryFile(3, tmp_path / "h.jsonl")], pool, block_bytes=2_000).micro.rows()
        return rows.sort_by([("op", "ascending")])

    with_processes = read()
    monkeypatch.setattr(read_files, "LEAST_BYTES", 1 << 20)
    assert read() == with_processes
    assert len(with_processes) == 80


@pytest.mark.usefixtures("pool")
def test_many_findings_are_read_from_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "h.jsonl"
    path.write_text(to_jsonl(random_history(Random(5), 40, {"duplicate", "lost-write"})))
    (of_values,) = check_history_files(spark, [path], frozenset())
    monkeypatch.setattr(table, "FEW_ROWS", 0)
    (of_files,) = check_history_files(spark, [path], frozenset())
    assert isinstance(of_values, Verdict)
    assert {"duplicate", "lost-write"} <= of_values.anomalies.keys()
    assert of_files == of_values


def test_an_error_in_a_process_is_that_of_the_check(tmp_path: Path, pool: TaskProcesses) -> None:
    def crash(batches: Batches) -> Batches:
        raise ValueError(f"out of cheese in {next(batches).num_rows} rows")

    with pytest.raises(AnalysisFailed, match="the analysis failed: ValueError: out of cheese in 7 rows"):
        micro_files(tmp_path, pool).in_tasks(crash, SUM)


def test_a_damaged_file_is_named(tmp_path: Path, pool: TaskProcesses) -> None:
    files = micro_files(tmp_path, pool)
    path = tmp_path / "micro.parquet"
    data = bytearray(path.read_bytes())
    data[4:300] = bytes(296)
    path.write_bytes(data)
    with pytest.raises(UnreadableInput, match=r"micro\.parquet is damaged: a part of it cannot be read"):
        files.in_tasks(make_deal(), NUMBERED)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (pa.ArrowMemoryError("malloc of 9 failed"), "ArrowMemoryError: malloc of 9 failed"),
        (OSError(errno.EMFILE, "Too many open files"), "Too many open files"),
    ],
)
def test_an_error_of_the_machine_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, words: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    files = micro_files(tmp_path, TaskProcesses())
    monkeypatch.setattr(table, "HERE_BYTES", 1 << 20)
    monkeypatch.setattr(table.pq, "ParquetFile", fail)
    with pytest.raises(AnalysisFailed, match=words):
        files.in_tasks(make_deal(), NUMBERED)


@pytest.mark.parametrize(
    ("processors", "free_gb", "limits", "count"),
    [
        (64, 8, {}, 8),
        (2, 100, {}, 2),
        (4, 0, {}, 1),
        (64, 200, {"memory.max": "max", "cpu.max": "max 100000"}, 64),
        (64, 200, {"memory.max": f"{4 << 30}"}, 3),  # 2 GB are in use, and 1 GB of them are cached files
        (64, 200, {"cpu.max": "250000 100000"}, 2),
    ],
)
def test_there_are_as_many_processes_as_the_machine_or_container_can_hold(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    processors: int,
    free_gb: int,
    limits: dict[str, str],
    count: int,
) -> None:
    used = {"memory.current": f"{2 << 30}", "memory.stat": f"anon 5\ninactive_file {1 << 30}\n"}
    for name, text in (used | limits).items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(machine, "_CGROUP", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(processors)), raising=False)
    memory = SimpleNamespace(available=free_gb * MEMORY_MB << 20)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    with TaskProcesses() as pool:
        assert pool.count == count


def test_a_process_that_dies_fails_its_call_only(tmp_path: Path, pool: TaskProcesses) -> None:
    def die(batches: Batches) -> Batches:
        sys.stderr.write("no cheese\n")
        sys.stderr.flush()
        os.kill(os.getpid(), signal.SIGKILL)
        yield from batches

    for _ in range(pool.count + 1):
        with pytest.raises(AnalysisFailed, match="too little memory: no cheese"):
            micro_files(tmp_path, pool).in_tasks(die, MICRO)
    assert len(micro_files(tmp_path, pool).in_tasks(make_deal(), NUMBERED, ["run", "op"]).rows()) == 41


def test_calls_that_follow_a_failure_are_not_made(tmp_path: Path) -> None:
    def fail() -> None:
        raise ValueError("out of cheese")

    def work(path: str) -> None:
        Path(path).touch()
        signal.sigtimedwait([], 0.05)

    later = [partial(work, str(tmp_path / str(number))) for number in range(100)]
    with TaskProcesses(1) as pool:
        with pytest.raises(AnalysisFailed, match="out of cheese"):
            pool.call_all([fail, *later], here=False)
        made = len(list(tmp_path.iterdir()))
        assert made < 100
        pool.call_all([os.getpid], here=False)
        assert len(list(tmp_path.iterdir())) == made


def test_whoever_waits_gets_an_error_when_the_processes_are_killed(tmp_path: Path) -> None:
    def hold() -> None:
        Path(marker).touch()
        signal.pause()

    def kill_when_begun() -> None:
        wait_for(Path(marker).exists, "the call to begin", 20)
        kill_processes()

    marker = str(tmp_path / "began")
    killer = Thread(target=kill_when_begun)
    killer.start()
    with TaskProcesses() as pool, pytest.raises(AnalysisFailed, match="the check was interrupted"):
        pool.call_all([hold, hold], here=False)
    killer.join()


def test_the_end_leaves_no_thread_no_file_and_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def held() -> dict[str, int]:
        process = psutil.Process()
        return {
            "files": process.num_fds(),
            "threads": active_count(),
            "processes": len(process.children()),
            "folders": len(list(tmp_path.iterdir())),
        }

    def use() -> None:
        with TaskProcesses() as pool:
            pool.call_all([os.getpid] * 4, here=False)

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    use()
    before = held()
    use()
    after = held()
    assert all(after[name] <= before[name] for name in before), (before, after)
    assert after["folders"] == 0


def test_a_process_ends_with_the_one_that_started_it() -> None:
    program = (
        "import os; from checkers.histories.processes import TaskProcesses; pool = TaskProcesses(); "
        "pid = pool.call_all([os.getpid], here=False)[0]; print(pid, pool.new_folder().name, flush=True); "
        "os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    pid, folder = done.stdout.split()
    wait_for(lambda: not psutil.pid_exists(int(pid)), f"the end of process {pid}", 10)
    wait_for(lambda: not Path(folder).exists(), f"the end of {folder}", 10)
