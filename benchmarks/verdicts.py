"""Measure the cost of a verdict: `python -m benchmarks.verdicts [STORE]`. It prints measurements, and asserts nothing.

A run of one minute with the default faults, or the run in STORE, is checked by the run itself, by a new process of
`fencepost check`, and repeatedly by a shared Spark server. Every result is a ratio to a bare PySpark session with one
trivial job, which is measured between them.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import fencepost
from harness.environment.java import find_java
from harness.results.run_metadata import RunMetadata

ROUNDS = 3
WARM_ROUNDS = 4
TIME_LIMIT_S = 60.0
GOAL_VERDICT_S, GOAL_BEYOND_S, GOAL_WARM_S, GOAL_COLD = 10.0, 20.0, 4.0, 1.6
CHECK_PHASES = ("tables", "wait for Spark", "shared tables", "checks", "examples")
BARE = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false").getOrCreate()
assert spark.range(10).count() == 10
spark.stop()
"""


def main() -> None:
    if len(sys.argv) > 1 and not (Path(sys.argv[1]) / "verdict.json").is_file():
        raise SystemExit(
            f"{sys.argv[1]} is not a stored run with a verdict: name another run, or no run to make a new one"
        )
    with tempfile.TemporaryDirectory(prefix="fencepost-bench-") as folder:
        store = Path(sys.argv[1]) if len(sys.argv) > 1 else single_run(Path(folder))
        bare, cold = [], []
        for _ in range(ROUNDS):
            bare.append(taken_s([sys.executable, "-c", BARE]))
            cold.append(taken_s([sys.executable, "-P", "-m", "fencepost", "check", str(store)]))
        bare_s = statistics.median(bare)
        say(f"a bare PySpark session with one trivial job: {spread(bare)} s")
        print_figure(
            f"fencepost check, cold: {spread(cold)} s, in bare sessions",
            statistics.median(cold) / bare_s,
            GOAL_COLD,
        )
        with fencepost.shared_spark():
            first_s = check_s(store)
            warm = [check_s(store) for _ in range(WARM_ROUNDS)]
        say(
            f"a shared Spark server that has just started: {first_s:.1f} s, {first_s / bare_s:.1f} bare sessions"
        )
        print_figure(f"a warm Spark server: {spread(warm)} s, seconds", min(warm), GOAL_WARM_S)


def single_run(folder: Path) -> Path:
    """Run for a minute, print the time beyond the limit, and return the run folder."""
    began_s = time.monotonic()
    result = fencepost.run(time_limit=TIME_LIMIT_S, seed=1, store=str(folder / "store"))
    beyond_s = time.monotonic() - began_s - TIME_LIMIT_S
    took_s = {
        phase.name: phase.end_s - phase.start_s
        for phase in RunMetadata.load(result.folder / "metadata.json").phases
    }
    for name, seconds in took_s.items():
        say(f"  {name:15s} {seconds:6.2f} s")
    print_figure(
        f"a run of {TIME_LIMIT_S:g} s ({result.valid}), seconds beyond its limit", beyond_s, GOAL_BEYOND_S
    )
    print_figure(
        "its verdict, seconds after its final reads",
        sum(took_s.get(name, 0) for name in CHECK_PHASES),
        GOAL_VERDICT_S,
    )
    return result.folder


def check_s(store: Path) -> float:
    """Return the seconds of one check."""
    began_s = time.monotonic()
    fencepost.check([store])
    return time.monotonic() - began_s


def taken_s(command: list[str]) -> float:
    """Return the seconds of a process that uses the same Java as Fencepost."""
    began_s = time.monotonic()
    environment = {**os.environ, "JAVA_HOME": str(find_java("auto").home)}
    done = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        env=environment,
        encoding="utf-8",
        errors="replace",
    )
    if done.returncode not in (0, 1, 3):  # there is no verdict, so the time means nothing
        raise SystemExit(f"{' '.join(command)[:100]} ended with {done.returncode}: {done.stderr[-300:]}")
    return time.monotonic() - began_s


def spread(values: list[float]) -> str:
    """Return minimum, median and maximum as text."""
    return f"{min(values):.1f} / {statistics.median(values):.1f} / {max(values):.1f}"


def print_figure(text: str, value: float, goal: float) -> None:
    """Print a figure compared with its goal."""
    say(f"{text}: {value:.1f}; goal {goal:g}: {'met' if value <= goal else f'missed by {value - goal:.1f}'}")


def say(text: str) -> None:
    """Print a line immediately."""
    print(text, flush=True)


if __name__ == "__main__":
    main()
