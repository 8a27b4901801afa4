"""The witness that uses Fetch, compared with the segment files of the same run, batch by batch."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from msgspec import structs

import fencepost
from fencepost.api import Result
from harness.model.promises import SEGMENTS
from harness.record.schema import LOG
from harness.results.run_metadata import RunMetadata
from harness.settings.run_file import StoredPlan
from harness.witness.tabulate import PartitionEnds, count_rows, tabulate


@pytest.fixture(scope="module")
def fetched(runs_folder: Path) -> Result:
    """A run of a correct pipeline that fetched the logs of the leaders, and kept the segment files."""
    return fencepost.run(
        witness="fetch",
        keep="logs",
        nemesis="kill-worker,pause-worker",
        time_limit=30,
        seed=5,
        store=str(runs_folder / "fetch"),
    )


@pytest.fixture(scope="module")
def by_segments(fetched: Result, runs_folder: Path) -> Path:
    """A copy of the run, as if it had promised the segment files."""
    folder = runs_folder / "segments" / "shop" / fetched.folder.name
    shutil.copytree(fetched.folder, folder)
    for subfolder in ("log", "history"):
        shutil.rmtree(folder / subfolder)
    plan = StoredPlan.load(folder / "run.toml")
    promises = {**plan.run["promises"], "witness": SEGMENTS, "replicas": True}
    plan = replace(plan, run={**plan.run, "promises": promises})
    plan.save(folder / "run.toml")
    leaders, marks = {}, {}
    names = {tuple(key): tp for tp, *key in partitions(fetched.folder)}
    for row in rows(fetched.folder, "replicas"):
        (topic_partition,) = [key for key, tp in names.items() if tp == row["tp"]]
        leaders[topic_partition] = row["broker"]
        marks[topic_partition] = row["high_watermark"]
    ends = PartitionEnds(leaders, marks)  # type: ignore[arg-type]
    tabulate(folder, int(plan.run["id"]), plan.pipeline, plan.promises, ends)
    facts = RunMetadata.load(folder / "metadata.json")
    structs.replace(facts, rows=count_rows(folder)).save(folder / "metadata.json")
    return folder


def partitions(folder: Path) -> list[tuple[int, str, int]]:
    table = pq.read_table(folder / "history" / "partitions.parquet").to_pylist()
    return [(row["tp"], row["topic"], row["partition"]) for row in table]


def rows(folder: Path, table: str) -> list[dict[str, Any]]:
    return list(pq.read_table(folder / "log" / f"{table}.parquet").to_pylist())


def named_rows(folder: Path, table: str, names: Mapping[int, str]) -> list[str]:
    """Return the rows of the leaders, with names of partitions, because the numbers may differ."""
    entries = []
    for row in rows(folder, table):
        if row.get("leader") is False:
            continue
        entry = {key: names[value] if key in ("tp", "log_tp") else value for key, value in row.items()}
        entry["tps"] = sorted(names[tp] for tp in row.get("tps") or ())
        entries.append(json.dumps(entry, sort_keys=True, default=str))
    return sorted(entries)


def test_a_correct_run_is_valid_by_fetched_logs(fetched: Result) -> None:
    fetched.assert_valid()
    assert fetched.verdict["coverage"]["aborted"] > 0
    assert "one replica" in fetched.verdict["not_checked"]["replica-divergence"]


@pytest.mark.parametrize("table", sorted(LOG))
def test_fetched_logs_equal_the_segment_files_of_the_leaders(
    fetched: Result, by_segments: Path, table: str
) -> None:
    names = [
        {tp: f"{topic}/{number}" for tp, topic, number in partitions(folder)}
        for folder in (fetched.folder, by_segments)
    ]
    fetched_rows, segment_rows = (
        named_rows(fetched.folder, table, names[0]),
        named_rows(by_segments, table, names[1]),
    )
    assert fetched_rows == segment_rows
    assert len(fetched_rows) > 6
    if table == "batches":
        markers = {row["marker"] for row in rows(fetched.folder, "batches")}
        assert markers == {None, "abort", "commit"}


def test_the_verdict_is_the_same_except_for_replica_divergence(fetched: Result, by_segments: Path) -> None:
    (checked,) = fencepost.check([by_segments])
    assert checked.valid is fetched.valid
    assert checked.verdict["anomalies"] == fetched.verdict["anomalies"]
    assert checked.verdict["coverage"] == fetched.verdict["coverage"]
    only_fetched = fetched.verdict["not_checked"].keys() - checked.verdict["not_checked"].keys()
    assert only_fetched == {"replica-divergence"}


def test_a_defect_is_caught_by_fetched_logs(runs_folder: Path) -> None:
    result = fencepost.run(
        defect="random-transactional-id",
        witness="fetch",
        time_limit=25,
        seed=5,
        store=str(runs_folder / "fetch-defect"),
    )
    assert result.valid is False, result.explain()
    assert "reprocessed-input" in result.verdict["anomalies"]
