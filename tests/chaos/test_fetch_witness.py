"""The witness by Fetch, held against the segment files of the same run, batch by batch."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import fencepost
from fencepost.api import Result
from harness.model.promises import SEGMENTS
from harness.record.schema import LOG
from harness.results.run_metadata import RunMetadata
from harness.runner.tabulate import PartitionEnds, count_rows, tabulate
from harness.settings.run_file import StoredPlan


@pytest.fixture(scope="module")
def fetched(place: Path) -> Result:
    """A run of a right pipeline whose witness was the leaders' answers, with its segment files kept."""
    return fencepost.run(
        witness="fetch",
        keep="logs",
        nemesis="kill-worker,pause-worker",
        time_limit=30,
        seed=5,
        store=str(place / "fetch"),
    )


@pytest.fixture(scope="module")
def by_segments(fetched: Result, place: Path) -> Path:
    """The same run, as if it had promised the segment files."""
    folder = place / "segments" / "shop" / fetched.folder.name
    shutil.copytree(fetched.folder, folder)
    for room in ("log", "history"):
        shutil.rmtree(folder / room)
    plan = StoredPlan.load(folder / "run.toml")
    promises = {**plan.run["promises"], "witness": SEGMENTS, "replicas": True}
    plan = replace(plan, run={**plan.run, "promises": promises})
    plan.save(folder / "run.toml")
    leaders, marks = {}, {}
    names = {tuple(key): tp for tp, *key in partitions(fetched.folder)}
    for row in rows(fetched.folder, "replicas"):
        (place_of,) = [key for key, tp in names.items() if tp == row["tp"]]
        leaders[place_of] = row["broker"]
        marks[place_of] = row["high_watermark"]
    tabulate(folder, plan, PartitionEnds(leaders, marks))  # type: ignore[arg-type]
    facts = RunMetadata.load(folder / "metadata.json")
    replace(facts, rows=count_rows(folder)).save(folder / "metadata.json")
    return folder


def partitions(folder: Path) -> list[tuple[int, str, int]]:
    table = pq.read_table(folder / "history" / "partitions.parquet").to_pylist()
    return [(row["tp"], row["topic"], row["partition"]) for row in table]


def rows(folder: Path, table: str) -> list[dict[str, Any]]:
    return list(pq.read_table(folder / "log" / f"{table}.parquet").to_pylist())


def named(folder: Path, table: str, names: Mapping[int, str]) -> list[str]:
    """The rows of the leaders, with partitions by name: their numbers may differ."""
    found = []
    for row in rows(folder, table):
        if row.get("leader") is False:
            continue
        told = {key: names[value] if key in ("tp", "log_tp") else value for key, value in row.items()}
        told["tps"] = sorted(names[tp] for tp in row.get("tps") or ())
        found.append(json.dumps(told, sort_keys=True, default=str))
    return sorted(found)


def test_a_right_run_is_valid_by_what_the_leaders_give(fetched: Result) -> None:
    fetched.assert_valid()
    assert fetched.verdict["coverage"]["aborted"] > 0
    assert "one replica" in fetched.verdict["not_checked"]["replica-divergence"]


@pytest.mark.parametrize("table", sorted(LOG))
def test_the_leaders_give_what_their_segment_files_hold(
    fetched: Result, by_segments: Path, table: str
) -> None:
    names = [
        {tp: f"{topic}/{number}" for tp, topic, number in partitions(folder)}
        for folder in (fetched.folder, by_segments)
    ]
    given, held = named(fetched.folder, table, names[0]), named(by_segments, table, names[1])
    assert given == held
    assert len(given) > 6
    if table == "batches":
        markers = {row["marker"] for row in rows(fetched.folder, "batches")}
        assert markers == {None, "abort", "commit"}


def test_the_verdict_is_the_same_but_for_what_one_replica_cannot_show(
    fetched: Result, by_segments: Path
) -> None:
    (again,) = fencepost.check([by_segments])
    assert again.valid is fetched.valid
    assert again.verdict["anomalies"] == fetched.verdict["anomalies"]
    assert again.verdict["coverage"] == fetched.verdict["coverage"]
    apart = fetched.verdict["not_checked"].keys() - again.verdict["not_checked"].keys()
    assert apart == {"replica-divergence"}


def test_a_defect_is_caught_by_what_the_leaders_give(place: Path) -> None:
    result = fencepost.run(
        defect="random-transactional-id",
        witness="fetch",
        time_limit=25,
        seed=5,
        store=str(place / "fetch-defect"),
    )
    assert result.valid is False, result.explain()
    assert "reprocessed-input" in result.verdict["anomalies"]
