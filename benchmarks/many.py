"""Measure the cost of checking many runs: `python -m benchmarks.many [--runs N] [--one-by-one K] [--master URL]
RUN...`.

It copies each RUN in turn until there are N stored runs, each with its own id, and checks all of them by one
`fencepost check`. K of them are also checked one by one, each by a cold `fencepost check`, to estimate the
time for N. The goal for one call is a tenth of that time. It prints the time to the last verdict, the peak memory
of all processes, and the progress messages. It asserts nothing.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import tomli_w

from benchmarks.scale import ProcessCost, run_cold
from harness.common.documents import parse_toml
from harness.model.promises import HISTORY_FILE
from harness.record.parquet import PARQUET_OPTIONS
from harness.record.run_tables import PLAN

GOAL = 0.1
COPIED = ("metadata.json", "verdict.json", HISTORY_FILE)
"""The files of a run folder that a verdict needs, besides its plan and its tables."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("run", nargs="+", type=Path, help="a stored run")
    parser.add_argument("--runs", type=int, default=1000, help="how many are checked together")
    parser.add_argument("--one-by-one", type=int, default=5, help="how many are checked one by one")
    parser.add_argument("--master", help="where Spark runs, if not on this machine")
    parser.add_argument(
        "--keep", type=Path, help="keep the copies in this folder, and use the copies that are in it"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fencepost-bench-") as scratch:
        store = arguments.keep or Path(scratch) / "store"
        if not store.exists():
            copies(arguments.run, store, arguments.runs)
        runs = sorted((store / "night").iterdir())
        size_mb = sum(path.stat().st_size for path in store.rglob("*.parquet")) / 1e6
        say(f"{len(runs)} runs of {len(arguments.run)} kinds, {size_mb:.0f} MB of tables")
        where = ["--master", arguments.master] if arguments.master else []
        alone = [check([run], where) for run in runs[: arguments.one_by_one]]
        each_s = statistics.median(cost.took_s for cost in alone)
        say(f"one by one, cold: {each_s:.1f} s each (of {len(alone)}), {each_s * len(runs):.0f} s for all")
        cost = check([store], where)
        say(f"together: {cost}; {cost.took_s / len(runs):.2f} s each")
        say(f"  verdicts: {cost.answer.count(chr(10))}; progress: {progress(cost)}")
        anomalies_by_run = findings_of(cost)
        same = all(
            anomalies_by_run[name] == findings
            for single in alone
            for name, findings in findings_of(single).items()
        )
        say("  the same verdicts as one by one" if same else "  DIFFERENT verdicts from those one by one")
        ratio = cost.took_s / (each_s * len(runs))
        say(f"together / one by one: {ratio:.3f}; goal {GOAL:g}: {'met' if ratio <= GOAL else 'missed'}")


def copies(originals: Sequence[Path], store: Path, count: int) -> None:
    """Make `count` stored runs, from each of the originals in turn."""
    for n in range(count):
        copy(originals[n % len(originals)], store / "night" / f"20261124T{n:06}Z", 1_000_000 + n)


def copy(original: Path, folder: Path, run: int) -> None:
    """Copy a run, with another id in its plan and in every row of its tables."""
    folder.mkdir(parents=True)
    plan = parse_toml((original / PLAN).read_text(encoding="utf-8"))
    plan["run"]["id"] = run
    (folder / PLAN).write_text(tomli_w.dumps(plan), encoding="utf-8")
    for name in COPIED:
        if (original / name).exists():
            shutil.copy(original / name, folder / name)
    shutil.copytree(original / "journals", folder / "journals", copy_function=link_or_copy)
    for source in original.glob("*/*.parquet"):
        table = pq.read_table(source)
        at = table.schema.get_field_index("run")
        ids = pa.array([run] * table.num_rows, table.schema.field(at).type)
        (folder / source.parent.name).mkdir(exist_ok=True)
        numbered = table.set_column(at, table.schema.field(at), ids)
        pq.write_table(numbered, folder / source.parent.name / source.name, **PARQUET_OPTIONS)


def link_or_copy(source: str, target: str) -> None:
    """Copy a file by a hard link if the disk permits, because a thousand runs are large."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy(source, target)


def check(paths: Sequence[Path], where: Sequence[str]) -> ProcessCost:
    """Run one cold `fencepost check`."""
    cost = run_cold(["-P", "-m", "fencepost", "check", "--json", *where, *map(str, paths)])
    if not cost.answer:
        sys.exit(f"no answer: {cost.stderr.strip()[-500:]}")
    return cost


def findings_of(cost: ProcessCost) -> dict[str, tuple[object, dict[str, int]]]:
    """Return for each history whether it is valid, and the count of each anomaly."""
    verdicts = map(json.loads, cost.answer.splitlines())
    return {
        verdict["history"]: (
            verdict["valid"],
            {name: body["count"] for name, body in verdict.get("anomalies", {}).items()},
        )
        for verdict in verdicts
    }


def progress(cost: ProcessCost) -> str:
    """Return the number of progress messages and the longest pause between them."""
    times = [float(at) for at in re.findall(r"^\[ *([\d.]+) s\]", cost.stderr, re.MULTILINE)]
    pauses_s = [after - before for before, after in zip(times, [*times[1:], cost.took_s], strict=True)]
    return f"{len(times)} lines, the longest pause {max(pauses_s, default=0):.0f} s"


def say(text: str) -> None:
    """Print a line immediately."""
    print(text, flush=True)


if __name__ == "__main__":
    main()
