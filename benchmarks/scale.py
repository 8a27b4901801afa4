"""Measure the cost of checking a large history: `python -m benchmarks.scale [SIZE ...]`, sizes such as 1m, 10m,
50m, 100m.

It writes a history of this many micro-operations (records sent or read) straight to Parquet, with planted
anomalies. Then it measures a cold `fencepost check`, from its start to its verdict. It prints wall time by phase,
processor time, the peak memory of all processes, and which planted anomalies were found. It does the same for
seven checks alone, and compares them with DuckDB. It asserts nothing.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.histories import write_edn
from harness.record.history_form import FAIL, MICRO, NAMES, OK, OPS
from harness.record.parquet import PARQUET_OPTIONS

PROCESSES, KEYS, SENDS, PLANTED = 16, 64, 4, 10
GOALS_S = {"1m": 10.0, "10m": 60.0}
TEXT = "1m"
"""The size that is also checked in the form that Jepsen writes: Jepsen's checker takes 21.6 s for it on two cores,
including parsing, and cannot check ten times as much.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("size", nargs="*", default=["1m", "10m"])
    parser.add_argument(
        "--keep", type=Path, help="keep the histories in this folder, and use the histories that are in it"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fencepost-bench-") as scratch:
        for size in arguments.size:
            folder = (arguments.keep or Path(scratch)) / f"history-{size}"
            if not folder.exists():
                began_s = time.monotonic()
                write(folder, transactions_of(size))
                print(f"{size}: written in {time.monotonic() - began_s:.1f} s", flush=True)
            print_verdict_cost(size, folder, GOALS_S.get(size))
            if size == TEXT:
                text = Path(scratch) / "history.edn"
                write_edn(text, transactions_of(size))
                print_verdict_cost(f"{size} as edn", text, 21.6)
            print_seven_checks(size, folder)


def transactions_of(size: str) -> int:
    """Return the number of transactions that have about this many micro-operations."""
    return int(size.rstrip("m")) * 1_000_000 // (2 * SENDS)


def print_verdict_cost(size: str, path: Path, goal_s: float | None) -> None:
    """Print the cost of a verdict by a new process, phase by phase."""
    cost = run_cold(["-P", "-m", "fencepost", "check", "--json", str(path)])
    goal = f"; goal {goal_s:g} s" if goal_s else ""
    print(f"{size}: cold, to the verdict: {cost}{goal}", flush=True)
    print(f"  {phases_of(cost)}")
    last = cost.stderr.strip().rpartition("\n")[2]
    print(f"  {findings_text(json.loads(cost.answer)) if cost.answer else f'no answer: {last}'}", flush=True)


def phases_of(cost: "ProcessCost") -> str:
    """Return the seconds of each phase of a check."""
    begins = [(float(at), name) for at, name in re.findall(r"\[ *([\d.]+) s\] (.+)", cost.stderr)]
    ends = [*(at for at, _ in begins[1:]), cost.took_s]
    return ", ".join(f"{name} {end - at:.1f}" for (at, name), end in zip(begins, ends, strict=True))


def print_seven_checks(size: str, folder: Path) -> None:
    """Print the cost of seven checks by a new process, on Spark and on DuckDB."""
    spark, duckdb = (
        run_cold(["-m", "benchmarks.seven", engine, str(folder)]) for engine in ("spark", "duckdb")
    )
    for cost in (spark, duckdb):
        if not cost.answer:
            sys.exit(f"{size}: seven checks: no answer: {cost.stderr.strip().rpartition(chr(10))[2]}")
    same = (
        "the same counts" if spark.answer == duckdb.answer else f"DIFFERENT: {spark.answer} {duckdb.answer}"
    )
    print(
        f"{size}: seven checks, cold: Spark {spark}; DuckDB {duckdb}: {same}, "
        f"ratio {spark.took_s / duckdb.took_s:.1f}; goal 6",
        flush=True,
    )


def write(folder: Path, transactions: int, seed: int = 1) -> None:
    """Write the tables of a history with this many transactions, and with reads of all their records."""
    rng = np.random.default_rng(seed)
    total = transactions + 4 * PROCESSES
    number = np.arange(total, dtype=np.int64)
    outcome = np.full(total, OK, np.int8)
    process = number % PROCESSES
    op = 1 + PROCESSES + 2 * number
    invoked = np.where(number < PROCESSES, number + 1, 2 + PROCESSES + 2 * (number - PROCESSES))
    sender = np.repeat(number[:transactions], SENDS)
    key = rng.integers(0, KEYS, len(sender))
    value = np.arange(len(sender), dtype=np.int64)
    # The records of overlapping transactions are not in the log in the order in which the transactions completed.
    log_order = np.lexsort((value, sender + rng.integers(0, PROCESSES // 2, transactions)[sender], key))
    offset = np.empty(len(sender), np.int64)
    first = np.searchsorted(key[log_order], np.arange(KEYS))
    offset[log_order] = 2 * (
        np.arange(len(sender)) - first[key[log_order]]
    )  # every second offset is a marker
    reader_process = key % PROCESSES
    ready = sender + 2 * PROCESSES
    reader = ready + (reader_process - ready) % PROCESSES
    latest = np.empty(len(sender), np.int64)
    # A reader reads a record no earlier than the records before it in the log.
    for number_of_key in range(KEYS):
        of_key = log_order[key[log_order] == number_of_key]
        latest[of_key] = np.maximum.accumulate(reader[of_key])
    reader = latest
    is_read = np.ones(len(sender), bool)
    planted = rng.choice(len(sender) // 2, 3 * PLANTED, replace=False)
    is_read[planted[:PLANTED]] = False  # lost: reads passed the record, and none returned it
    outcome[sender[planted[PLANTED : 2 * PLANTED]]] = FAIL  # but their records are read
    sends = _rows(op[sender], key, value, offset, process[sender], outcome[sender], polled=False)
    order = np.lexsort((offset, key, reader))
    order = order[is_read[order]]
    polls = _rows(
        op[reader[order]], key[order], value[order], offset[order], process[reader[order]],
        outcome[reader[order]], polled=True,
    )  # fmt: skip
    twice = planted[2 * PLANTED :]
    again = _rows(
        op[reader[twice]], key[twice], value[twice], offset[twice] + 1, process[reader[twice]],
        outcome[reader[twice]], polled=True, n_from=1000,
    )  # fmt: skip
    folder.mkdir(parents=True)
    micro = pa.concat_tables([sends, polls, again])
    pq.write_table(micro, folder / "micro.parquet", **PARQUET_OPTIONS, row_group_size=1 << 20)
    many = pa.array([None] * total, pa.list_(pa.int64()))
    ops = {
        "run": np.zeros(total, np.int64), "op": op, "process": process, "f": pa.array(["txn"] * total),
        "outcome": outcome, "invoked": invoked, "invoke_ns": invoked * 1_000_000,
        "complete_ns": op * 1_000_000, "isolation": pa.nulls(total, pa.string()), "keys": many,
        "rebalanced": many,
    }  # fmt: skip
    pq.write_table(pa.table(ops, schema=OPS), folder / "ops.parquet", **PARQUET_OPTIONS)
    pq.write_table(NAMES.empty_table(), folder / "names.parquet")


def _rows(
    op: np.ndarray, key: np.ndarray, value: np.ndarray, offset: np.ndarray, process: np.ndarray,
    outcome: np.ndarray, *, polled: bool, n_from: int = 0,
) -> pa.Table:  # fmt: skip
    """Return MICRO. `n` counts from `n_from` within each operation, whose rows are adjacent."""
    starts = np.flatnonzero(np.diff(op, prepend=-1))
    n = np.arange(len(op)) - np.repeat(starts, np.diff(starts, append=len(op)))
    columns = {
        "run": np.zeros(len(op), np.int64), "key": key, "value": value, "offset": offset, "op": op,
        "n": (n + n_from).astype(np.int32), "process": process,
        "polled": np.full(len(op), polled), "outcome": outcome,
    }  # fmt: skip
    return pa.table(columns, schema=MICRO)


@dataclass(frozen=True)
class ProcessCost:
    """The cost of a process and its descendants, and its output."""

    took_s: float  # until its last verdict
    ended_s: float
    processor_s: float
    peak_mb: float
    answer: str
    stderr: str

    def __str__(self) -> str:
        spent = f"ended after {self.ended_s:.1f} s, {self.processor_s:.1f} s of CPU"
        return f"{self.took_s:.1f} s ({spent}), peak {self.peak_mb:.0f} MB"


def run_cold(arguments: list[str]) -> ProcessCost:
    """Run Python with these arguments until it ends."""
    began_s = time.monotonic()
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as stderr,
        tempfile.TemporaryFile("w+", encoding="utf-8") as answer,
    ):
        child = subprocess.Popen([sys.executable, *arguments], stdout=answer, stderr=stderr)
        peak, used_s, answered_s, answered = 0.0, dict[int, float](), 0.0, 0
        watched = psutil.Process(child.pid)
        while child.poll() is None:
            peak = max(peak, _sample(watched, used_s))
            if (size := os.fstat(answer.fileno()).st_size) > answered:
                answered_s, answered = time.monotonic() - began_s, size
            try:
                child.wait(0.1)
            except subprocess.TimeoutExpired:
                continue
        ended_s = time.monotonic() - began_s
        if os.fstat(answer.fileno()).st_size > answered:
            answered_s = ended_s
        answer.seek(0)
        stderr.seek(0)
        return ProcessCost(
            answered_s or ended_s, ended_s, sum(used_s.values()), peak, answer.read(), stderr.read()
        )


def _sample(process: psutil.Process, used_s: dict[int, float]) -> float:
    """Return the memory in MB of the process and its descendants, and note the processor time of each.

    The operating system also adds up the time of child processes, but without that of Spark's Python workers, whose
    parent ends before them.
    """
    total = 0
    try:
        for member in [process, *process.children(recursive=True)]:
            total += member.memory_info().rss
            used_s[member.pid] = member.cpu_times().user + member.cpu_times().system
    except psutil.NoSuchProcess:
        return 0.0
    return total / 1e6


def findings_text(verdict: dict[str, object]) -> str:
    """Return the validity and the count of each anomaly as text."""
    if "error" in verdict:
        return f"no verdict: {verdict['error']}"
    anomalies: dict[str, dict[str, object]] = verdict["anomalies"]  # type: ignore[assignment]
    counts = ", ".join(f"{name} {findings['count']}" for name, findings in sorted(anomalies.items()))
    return f"valid {verdict['valid']}: {counts}"


if __name__ == "__main__":
    main()
