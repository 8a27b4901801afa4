"""Measure the cost of reading an external history: `python -m benchmarks.read_history [TRANSACTIONS]`.

It parses the same history as JSON Lines and as EDN on one core, in turn. It prints micro-operations (records sent
or read, without invocations) per second of processor time, and the ratio of the two. Then it measures the wall time
from the first line to the tables, with the start of the processes that parse. It asserts nothing.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow.compute as pc

from benchmarks.histories import write_edn, write_jsonl
from checkers.histories.blocks import blocks_of, read_block
from checkers.histories.files import HistoryFile
from checkers.histories.processes import TaskProcesses
from checkers.histories.read_files import Histories, read_texts

ROUNDS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("transactions", nargs="?", type=int, default=25_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fencepost-bench-") as folder:
        jsonl, edn = Path(folder) / "history.jsonl", Path(folder) / "history.edn"
        write_jsonl(jsonl, arguments.transactions)
        write_edn(edn, arguments.transactions)
        count = micro_operations(jsonl)
        print(f"{arguments.transactions} transactions, {count} micro-operations")
        took: dict[Path, list[float]] = {jsonl: [], edn: []}
        for _ in range(ROUNDS):
            for path, times in took.items():
                times.append(seconds(partial(parse, path), time.process_time))
        for path, times in took.items():
            print_result("one core", path, statistics.median(times), count)
        print(f"edn : jsonl = {statistics.median(took[edn]) / statistics.median(took[jsonl]):.2f}")
        to_tables([jsonl, edn], count)


def parse(path: Path) -> int:
    """Parse a file, block by block, and return the number of rows."""
    return sum(len(batch) for block in blocks_of(0, path) for batch in read_block(block))


def micro_operations(path: Path) -> int:
    """Count the records sent or read in the completions of a file without open operations."""
    count = 0
    for block in blocks_of(0, path):
        for batch in read_block(block):
            completions = batch.filter(pc.not_equal(batch["type"], "invoke"))
            count += len(completions["sends"].flatten()) + len(completions["polls"].flatten())
    return count


def to_tables(paths: list[Path], count: int) -> None:
    """Read the history into tables. Print the wall time."""

    def read(path: Path) -> Histories:
        with TaskProcesses() as pool:
            return read_texts([HistoryFile(0, path)], pool)

    for path in paths:
        print_result("to the tables", path, seconds(partial(read, path), time.perf_counter), count)


def seconds(act: Callable[[], object], clock: Callable[[], float]) -> float:
    """Return the duration of a call in seconds of the clock."""
    start_s = clock()
    act()
    return clock() - start_s


def print_result(where: str, path: Path, took_s: float, count: int) -> None:
    rate = f"{count / took_s / 1e6:.2f} million micro-operations a second"
    print(f"{where}: {path.suffix[1:]:5} {took_s:6.2f} s, {rate}", flush=True)


if __name__ == "__main__":
    main()
