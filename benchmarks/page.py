"""Measure what `docs/scale.md` says, and write it there: `python -m benchmarks.page [PART ...]`.

The parts are `verdicts` (a run of a minute and its verdict, cold and warm), `histories` (external histories), `many`
(many stored runs in one call, on this machine and on a Spark cluster), and `suites`. All of them take about half an
hour on two cores. With `--sizes 1m 10m 100m` the largest history has a hundred million records, and needs 15 GB of
disk. Each part replaces its own section of the page. It asserts nothing.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import tomli_w

import fencepost
from benchmarks.cluster import spark_cluster
from benchmarks.histories import write_edn
from benchmarks.scale import ProcessCost, phases_of, run_cold, transactions_of, write
from harness.common.documents import parse_toml
from harness.environment.java import find_java
from harness.model.promises import HISTORY_FILE
from harness.record.parquet import PARQUET_OPTIONS
from harness.record.run_tables import PLAN
from harness.results.run_metadata import RunMetadata

PAGE = Path(__file__).parents[1] / "docs" / "scale.md"
ROUNDS = 3
TIME_LIMIT_S = 60.0
COUNTS = (1, 10, 20)
"""How many stored runs are checked in one call."""
COPIED = ("metadata.json", "verdict.json", HISTORY_FILE)
"""The files of a run folder that a verdict needs, besides its plan and its tables."""
BARE = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false").getOrCreate()
assert spark.range(10).count() == 10
spark.stop()
"""
SUITE = """
[suite]
name = "speed"
[defaults]
time-limit = 20
[matrix]
workload = ["shop"]
nemesis = ["kill-worker", "pause-worker"]
seeds = 2
"""
Rows = list[Sequence[object]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parts: dict[str, Callable[[argparse.Namespace, Path], str]] = {
        "verdicts": verdicts,
        "histories": histories,
        "many": many,
        "suites": suites,
    }
    parser.add_argument("part", nargs="*", choices=[*parts, []], default=[])
    parser.add_argument("--run", type=Path, help="a stored run of a minute; by default a new one is made")
    parser.add_argument("--sizes", nargs="*", default=["1m", "10m"], help="records of the histories")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fencepost-bench-") as folder:
        for name in arguments.part or parts:
            section = parts[name](arguments, Path(folder))
            say(section)
            replace_section(name, f"{machine()}\n\n{section}")


def machine() -> str:
    """Describe this machine and its load."""
    memory_gb = psutil.virtual_memory().total / 1e9
    load = os.getloadavg()[0]
    return f"{os.cpu_count()} processors, {memory_gb:.0f} GB of memory, load average {load:.1f} at the end."


def replace_section(name: str, text: str) -> None:
    """Replace the text between the two marks of a section."""
    begin, end = f"<!-- {name}: written by benchmarks.page -->", f"<!-- end of {name} -->"
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(begin)
    if end not in rest:
        raise SystemExit(f"{PAGE} has no section {name}: add the lines {begin} and {end}")
    PAGE.write_text(f"{before}{begin}\n{text}\n{end}{rest.partition(end)[2]}", encoding="utf-8")


def table(head: Sequence[str], rows: Rows) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def verdicts(arguments: argparse.Namespace, folder: Path) -> str:
    """Measure the phases of a run of a minute, its cold and warm checks, and a bare session between them."""
    run = stored_run(arguments, folder)
    phases = RunMetadata.load(run / "metadata.json").phases
    took = ", ".join(f"{phase.name} {phase.end_s - phase.start_s:.1f}" for phase in phases)
    bare, cold = [], list[ProcessCost]()
    for _ in range(ROUNDS):
        bare.append(bare_s())
        cold.append(check([run]))
    with fencepost.shared_spark():
        first_s, *warm = (check_s(run) for _ in range(ROUNDS + 1))
    cold_s = [cost.took_s for cost in cold]
    median = sorted(cold, key=attrgetter("took_s"))[ROUNDS // 2]
    ratio = statistics.median(cold_s) / statistics.median(bare)
    rows: Rows = [
        ["a bare PySpark session with one trivial job", spread(bare)],
        ["`fencepost check STORE`, a new process", f"{spread(cold_s)}: {ratio:.2f} bare sessions"],
        ["the first check of a shared Spark", f"{first_s:.1f}"],
        ["a shared Spark that has checked runs before", spread(warm)],
    ]
    return "\n\n".join(
        [
            f"A run of a minute ({tables_mb(run):.1f} MB of tables). Its phases, in seconds: {took}.",
            table(["minimum, median and maximum of three", "seconds"], rows),
            f"The phases of the median of the cold checks, in seconds: {phases_of(median)}.",
        ]
    )


def histories(arguments: argparse.Namespace, folder: Path) -> str:
    """Measure cold checks of external histories, and a bare session before each."""
    rows: Rows = []
    for size in arguments.sizes:
        write(folder / size, transactions_of(size))
        paths = [folder / size]
        if size == arguments.sizes[0]:
            paths.append(folder / "history.edn")
            write_edn(paths[-1], transactions_of(size))
        for path in paths:
            bare, cost = bare_s(), check([path])
            form = "edn" if path.suffix else "Parquet"
            rows.append(
                [
                    f"{size} as {form}",
                    f"{bare:.1f}",
                    f"{cost.took_s:.1f}",
                    f"{cost.took_s / bare:.2f}",
                    f"{cost.processor_s:.0f}",
                    f"{cost.peak_mb / 1000:.1f} GB",
                    phases_of(cost),
                ]
            )
            say(str(rows[-1]))
        shutil.rmtree(folder / size)
    head = ["records sent and read", "bare session, s", "check, s", "ratio", "processor, s", "peak memory"]
    return table([*head, "phases, s"], rows)


def many(arguments: argparse.Namespace, folder: Path) -> str:
    """Measure the check of several copies of a stored run in one call, on this machine and on a cluster."""
    run = stored_run(arguments, folder)
    for n in range(max(COUNTS)):
        copy(run, folder / "many" / f"20261124T{n:06}Z", 1_000_000 + n)
    copies = sorted((folder / "many").iterdir())
    on_this_machine = [check(copies[:count]) for count in COUNTS]
    with spark_cluster(folder / "cluster", "4g") as url:
        on_cluster = [check(copies[:count], "--master", url) for count in COUNTS]
    rows: Rows = [
        [
            count,
            *(
                text
                for cost in (here, there)
                for text in (
                    f"{cost.took_s:.1f}",
                    f"{cost.took_s / count:.2f}",
                    f"{cost.peak_mb / 1000:.1f} GB",
                )
            ),
        ]
        for count, here, there in zip(COUNTS, on_this_machine, on_cluster, strict=True)
    ]
    slopes = [
        f"{(costs[-1].took_s - costs[-2].took_s) / (COUNTS[-1] - COUNTS[-2]):.2f} s"
        for costs in (on_this_machine, on_cluster)
    ]
    head = [
        "runs in one call",
        "`local[*]`, s",
        "s a run",
        "peak memory",
        "cluster, s",
        "s a run",
        "peak memory",
    ]
    return (
        f"{table(head, rows)}\n\nEach further run of a minute costs {slopes[0]} on `local[*]`, and {slopes[1]} on a "
        "standalone cluster of two workers with one core each. The peak memory is that of the command and its "
        "descendants, without the workers of the cluster."
    )


def suites(_: argparse.Namespace, folder: Path) -> str:
    """Measure suites of four runs of twenty seconds."""
    file = folder / "suite.toml"
    file.write_text(SUITE, encoding="utf-8")
    rows: Rows = []
    for jobs, when in ((1, "together"), (2, "together"), (2, "each")):
        store = folder / f"store-{jobs}-{when}"
        options = ["--seed", "1", "--jobs", str(jobs), "--judge", when, "--store", str(store)]
        took_s = taken_s([sys.executable, "-P", "-m", "fencepost", "suite", str(file), *options])
        rows.append([jobs, when, f"{took_s:.0f}", f"{4 * 60 / took_s:.2f}"])
        say(str(rows[-1]))
    return table(["`--jobs`", "`--judge`", "four runs of 20 s, s", "runs a minute"], rows)


def stored_run(arguments: argparse.Namespace, folder: Path) -> Path:
    """Return the run that the command line names, or a new one of a minute."""
    if arguments.run is None:
        result = fencepost.run(time_limit=TIME_LIMIT_S, seed=1, store=str(folder / "store"))
        arguments.run = result.folder
    run: Path = arguments.run
    if not (run / "verdict.json").is_file():
        raise SystemExit(f"{run} is not a stored run with a verdict: name another run, or none")
    return run


def copy(original: Path, folder: Path, run: int) -> None:
    """Copy a run, with another id in its plan and in every row of its tables."""
    folder.mkdir(parents=True)
    plan = parse_toml((original / PLAN).read_text(encoding="utf-8"))
    plan["run"]["id"] = run
    (folder / PLAN).write_text(tomli_w.dumps(plan), encoding="utf-8")
    for name in COPIED:
        if (original / name).exists():
            shutil.copy(original / name, folder / name)
    shutil.copytree(original / "journals", folder / "journals")
    for source in original.glob("*/*.parquet"):
        rows = pq.read_table(source)
        at = rows.schema.get_field_index("run")
        ids = pa.array([run] * rows.num_rows, rows.schema.field(at).type)
        (folder / source.parent.name).mkdir(exist_ok=True)
        numbered = rows.set_column(at, rows.schema.field(at), ids)
        pq.write_table(numbered, folder / source.parent.name / source.name, **PARQUET_OPTIONS)


def check(paths: Sequence[Path], *options: str) -> ProcessCost:
    """Run one cold `fencepost check`. Each history must get a verdict."""
    cost = run_cold(["-P", "-m", "fencepost", "check", "--json", *options, *map(str, paths)])
    lines = [json.loads(line) for line in cost.answer.splitlines()]
    if len(lines) != len(paths) or any("error" in line for line in lines):
        raise SystemExit(f"no verdict: {cost.answer[:300]} {cost.stderr.strip()[-500:]}")
    return cost


def check_s(run: Path) -> float:
    """Return the seconds of one check in this process."""
    began_s = time.monotonic()
    fencepost.check([run])
    return time.monotonic() - began_s


def bare_s() -> float:
    """Return the seconds of a bare PySpark session, with the same Java as Fencepost."""
    return taken_s([sys.executable, "-c", BARE])


def taken_s(command: list[str]) -> float:
    """Return the seconds of a process, which must end with a verdict or without an error."""
    environment = {**os.environ, "JAVA_HOME": str(find_java("auto").home)}
    began_s = time.monotonic()
    done = subprocess.run(command, check=False, capture_output=True, env=environment)
    if done.returncode not in (0, 1, 3):
        words = done.stderr.decode(errors="replace")[-300:]
        raise SystemExit(f"{' '.join(command)[:100]} ended with {done.returncode}: {words}")
    return time.monotonic() - began_s


def tables_mb(run: Path) -> float:
    """Return the size of the tables of a run in MB."""
    return sum(path.stat().st_size for path in run.rglob("*.parquet")) / 1e6


def spread(values: Sequence[float]) -> str:
    """Return minimum, median and maximum as text."""
    return f"{min(values):.1f}, {statistics.median(values):.1f}, {max(values):.1f}"


def say(text: str) -> None:
    """Print a line immediately, with the load average."""
    print(f"[load {os.getloadavg()[0]:.1f}] {text}", flush=True)


if __name__ == "__main__":
    main()
