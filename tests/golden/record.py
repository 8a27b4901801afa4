"""Make an entry of the corpus: `python -m tests.golden.record NAME STORE`, or `... NAME --planted MODULE`.

A stored run is copied without the brokers' data and without the logs of programs. Folders of this machine, its user and
its host name are replaced. With `--planted`, the entry is a run with the plants of a module of `tests.planted`.
"""

import argparse
import getpass
import platform
import shutil
from dataclasses import asdict
from pathlib import Path
from zlib import crc32

from harness.model.pipeline import PipelineSpec, StageSpec, TopicSpec
from harness.model.promises import SEGMENTS, Promises
from harness.results.run_metadata import RunMetadata
from harness.settings.options import Options
from harness.settings.run_file import StoredPlan
from harness.witness.tabulate import count_rows
from tests.golden.corpus import CORPUS
from tests.planted.plants import PLANTS, planted_run
from tests.support.stored_tables import write_store

LEFT_OUT = ("brokers", "workers", "verdict.json", "report.html", "junit.xml", "*.log", "*.html")


def copy_run(store: Path, run: Path) -> None:
    """Copy a stored run to the folder `run`."""
    shutil.copytree(store, run, ignore=shutil.ignore_patterns(*LEFT_OUT))
    replaced = {
        str(store.resolve().parents[1]): "store",
        str(Path.cwd()): "fencepost",
        str(Path.home()): "home",
        platform.node(): "host",
        getpass.getuser() + "@": "user@",
    }
    for file in (path for path in run.rglob("*") if path.suffix in (".toml", ".json", ".jsonl")):
        text = file.read_text(encoding="utf-8")
        for private, public in replaced.items():
            text = text.replace(private, public)
        file.write_text(text, encoding="utf-8")


def write_planted(module: str, run: Path, seed: int = 7) -> None:
    """Write a run with each plant of a module of `tests.planted`."""
    plants = [name for name, plant in PLANTS.items() if plant.__module__.endswith(f".{module}")]
    planted = planted_run(seed, plants)
    number = crc32(module.encode())  # one Spark job can check all runs, because each has another number
    write_store(run, [(number, planted.run)], log=True)
    rows = planted.run.built
    topics: dict[str, int] = {}
    for row in rows["partitions"]:
        if not row["internal"]:
            topics[row["topic"]] = topics.get(row["topic"], 0) + 1
    replicas = planted.run.followers + 1
    stages: dict[str, StageSpec] = {}
    for row in rows["stages"]:
        reads = (
            (*stages[row["stage"]].reads, row["in_topic"]) if row["stage"] in stages else (row["in_topic"],)
        )
        stages[row["stage"]] = StageSpec(row["stage"], reads, row["group"], ordered=row["ordered"])
    pipeline = PipelineSpec(
        module,
        tuple(TopicSpec(name, count, replication=replicas) for name, count in topics.items()),
        tuple(stages.values()),
    )
    about = {
        "id": number,
        "wall_ms_at_zero": planted.run.wall_ms,
        "promises": asdict(Promises(witness=SEGMENTS)),
    }
    StoredPlan(Options(seed=seed), about, [], pipeline.as_table()).save(run / "run.toml")
    RunMetadata(rows=count_rows(run)).save(run / "metadata.json")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("store", nargs="?", type=Path)
    parser.add_argument("--planted")
    words = parser.parse_args()
    run = CORPUS / words.name / "run"
    if words.planted:
        run.mkdir(parents=True)
        write_planted(words.planted, run)
    else:
        copy_run(words.store, run)


if __name__ == "__main__":
    main()
