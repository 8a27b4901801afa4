"""Measure the cost of checking hostile histories: `python -m benchmarks.hostile [CASE ...] [--size 1000000]`.

Each case is an extreme: everything in one key, process, operation, value or offset; a million keys; hundreds of
histories, some of them damaged. It prints wall time, CPU seconds, the peak memory of all processes, and the
findings. It asserts nothing.
"""

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.scale import findings_text

Event = dict[str, object]
SIZE = 1_000_000
IN_ONE = 4  # records per operation, in cases where that is not the extreme


@dataclass(frozen=True)
class Case:
    """A history of about `share * size` records, and the anomalies that must be found in it."""

    events: Callable[[int], Iterator[Event]]
    share: float = 1.0
    valid: bool = True
    counts: tuple[tuple[str, int], ...] = ()  # counts of the anomalies that are not allowed


def pair(process: int, value: list[object], time_ns: int) -> Iterator[Event]:
    """Yield the invocation and the ok completion of a transaction. The invocation names the values that are sent."""
    sent = [[*step[:2], step[2][1]] if step[0] == "send" else ["poll"] for step in value]  # type: ignore[index]
    yield {"process": process, "type": "invoke", "f": "txn", "value": sent, "time": time_ns}
    yield {"process": process, "type": "ok", "f": "txn", "value": value, "time": time_ns + 1}


def many_keys(size: int) -> Iterator[Event]:
    """Each key has one record."""
    for first in range(0, size, IN_ONE):
        numbers = range(first, min(first + IN_ONE, size))
        yield from pair(first // IN_ONE % 8, [["send", f"k{n}", [0, n]] for n in numbers], 4 * first)
        yield from pair(9, [["poll", {f"k{n}": [[0, n]] for n in numbers}]], 4 * first + 2)


def one_key(size: int) -> Iterator[Event]:
    """All records are in one key."""
    for first in range(0, size, IN_ONE):
        numbers = range(first, min(first + IN_ONE, size))
        yield from pair(first // IN_ONE % 8, [["send", "x", [n, n]] for n in numbers], 4 * first)
        yield from pair(9, [["poll", {"x": [[n, n] for n in numbers]}]], 4 * first + 2)


def one_process(size: int) -> Iterator[Event]:
    """One process does everything, one record at a time."""
    for n in range(size // 2):
        yield from pair(0, [["send", n % 16, [n // 16, n]]], 4 * n)
        yield from pair(0, [["poll", {str(n % 16): [[n // 16, n]]}]], 4 * n + 2)


def one_operation(size: int) -> Iterator[Event]:
    """One operation sends everything, and another reads everything."""
    yield from pair(0, [["send", "x", [n, n]] for n in range(size)], 0)
    yield from pair(1, [["poll", {"x": [[n, n] for n in range(size)]}]], 2)


def one_value(size: int) -> Iterator[Event]:
    """One value is at every offset."""
    for n in range(size):
        yield from pair(n % 8, [["send", "x", [n, 7]]], 4 * n)
        yield from pair(9, [["poll", {"x": [[n, 7]]}]], 4 * n + 2)


def one_offset(size: int) -> Iterator[Event]:
    """Every value is at one offset."""
    for n in range(size):
        yield from pair(n % 8, [["send", "x", [0, n]]], 4 * n)
        yield from pair(9, [["poll", {"x": [[0, n]]}]], 4 * n + 2)


CASES = {
    "many-keys": Case(many_keys),
    "one-key": Case(one_key),
    "one-process": Case(one_process),
    "one-operation": Case(one_operation),
    "one-value": Case(
        one_value,
        0.1,
        False,
        (("duplicate", 1), ("G1c-realtime", 1)),  # the last writer counts
    ),
    "one-offset": Case(one_offset, 0.1, False, (("inconsistent-offsets", 1),)),
}
MANY = "many-histories"
DAMAGES: tuple[Callable[[bytes], bytes], ...] = (
    lambda data: data[: data.index(b"\n", len(data) // 2) - 5],
    lambda data: data + b'{"process": 0, "type": "ok", "f": "txn", "value": NaN}\n',
    lambda data: data.replace(b'"send"', b'"\xff"', 1),
    lambda data: b'{"process": 0, "type": "ok"}\n' + data,
    lambda data: data[:100] + b"[" * 5000 + data[100:],
)


def write(case: Case, path: Path, size: int) -> None:
    """Write the history as JSON Lines."""
    with path.open("w", encoding="utf-8") as file:
        for event in case.events(round(case.share * size)):
            file.write(json.dumps(event, separators=(",", ":")) + "\n")


def write_many(folder: Path, histories: int) -> dict[Path, bool]:
    """Write small histories, every tenth damaged. Returns for each file whether it can be read."""
    is_readable = {}
    for number in range(histories):
        lines = (json.dumps(event) + "\n" for event in one_key(20 + number % 7))
        data = "".join(lines).encode()
        damaged = number % 10 == 9
        if damaged and number % 20 == 19:
            path, data = folder / f"h{number:04}.jsonl.gz", gzip.compress(data)[: -9 - number % 40]
        else:
            path = folder / f"h{number:04}.jsonl"
            data = DAMAGES[number // 10 % len(DAMAGES)](data) if damaged else data
        path.write_bytes(data)
        is_readable[path] = not damaged
    return is_readable


@dataclass
class Cost:
    """The cost of all processes together."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    peak_mb: float = 0.0


def check(paths: list[Path], *arguments: str) -> tuple[int, list[dict[str, object]], str, Cost]:
    """Return status, verdicts, output and cost of one `fencepost check`."""
    began_s = time.monotonic()
    command = [sys.executable, "-P", "-m", "fencepost", "check", "--json", *arguments, *map(str, paths)]
    cost, cpu_s = Cost(), dict[tuple[int, float], float]()
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as out,
        tempfile.TemporaryFile("w+", encoding="utf-8") as err,
    ):
        child = subprocess.Popen(command, stdout=out, stderr=err)
        watched = psutil.Process(child.pid)
        while child.poll() is None:
            cost.peak_mb = max(cost.peak_mb, _sample(watched, cpu_s))
            try:
                child.wait(0.2)
            except subprocess.TimeoutExpired:
                continue
        cost.wall_s, cost.cpu_s = time.monotonic() - began_s, sum(cpu_s.values())
        out.seek(0)
        err.seek(0)
        return child.returncode, [json.loads(line) for line in out], err.read(), cost


def _sample(process: psutil.Process, cpu_s: dict[tuple[int, float], float]) -> float:
    """Return the memory in MB of the process and its descendants, and note the CPU time of each."""
    total = 0
    try:
        for member in [process, *process.children(recursive=True)]:
            times = member.cpu_times()
            cpu_s[member.pid, member.create_time()] = times.user + times.system
            total += member.memory_info().rss
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        pass
    return total / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("case", nargs="*", default=[*CASES, MANY])
    parser.add_argument("--size", type=int, default=SIZE)
    arguments = parser.parse_args()
    for name in arguments.case:
        with tempfile.TemporaryDirectory(prefix="fencepost-hostile-") as scratch:
            folder = Path(scratch)
            if name == MANY:
                paths = list(write_many(folder, arguments.size // 2000))
            else:
                paths = [folder / f"{name}.jsonl"]
                write(CASES[name], paths[0], arguments.size)
            status, verdicts, stderr, cost = check(paths)
            print(
                f"{name}: status {status}, {cost.wall_s:.1f} s wall, {cost.cpu_s:.1f} s CPU, peak "
                f"{cost.peak_mb:.0f} MB",
                flush=True,
            )
            if len(paths) == 1 and verdicts:
                print(f"  {findings_text(verdicts[0])}")
            else:
                errors = sum("error" in verdict for verdict in verdicts)
                print(f"  {errors} of {len(verdicts)} have an error; {stderr[-300:]}")


if __name__ == "__main__":
    main()
