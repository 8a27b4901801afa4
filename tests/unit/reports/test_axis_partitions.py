"""The panes of lag and last stable offset, by second, from the broker logs of a small run."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tomli_w

from harness.record.schema import LOG
from harness.record.table_reader import RunTables
from reports.pictures.axis import Pane, panes
from reports.series import Series
from reports.story.progress import greatest, progress
from reports.story.run import Story
from tests.support.synthetic_store import write_table

ZERO_MS = 1_795_255_200_000
AT_S = range(6)


def batch(tp: int, offset: int, at_s: float, **changes: Any) -> dict[str, Any]:
    body = {
        "leader": True,
        "tp": tp,
        "base_offset": offset,
        "last_offset": offset,
        "count": 1,
        "producer_id": 7,
    }
    body |= {"epoch": 0, "transactional": True, "control": False, "marker": None, "leader_epoch": 0}
    return body | {"max_timestamp_ms": ZERO_MS + round(at_s * 1000)} | changes


def marker(tp: int, offset: int, at_s: float, kind: str = "commit") -> dict[str, Any]:
    return batch(tp, offset, at_s, control=True, marker=kind)


def write_log(folder: Path, name: str, rows: list[dict[str, Any]]) -> None:
    (folder / "log").mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(rows, schema=LOG[name])
    pq.write_table(table, folder / "log" / f"{name}.parquet")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two inputs arrive at 1 and 2 s and the group passes both at 4.2 s. Outputs are open from 1.5 to 4.2 s."""
    topics = ["purchases", "invoices", "__consumer_offsets"]
    partitions = [{"tp": tp, "topic": topic, "partition": 0} for tp, topic in enumerate(topics)]
    write_table(tmp_path, "partitions", partitions)
    write_table(tmp_path, "stages", [{"stage": "shop", "group": "shop", "in_topic": "purchases"}])
    (tmp_path / "run.toml").write_text(tomli_w.dumps({"run": {"wall_ms_at_zero": ZERO_MS}}))
    inputs = [batch(0, 0, 1.0, transactional=False), batch(0, 1, 2.0, transactional=False)]
    outputs = [batch(1, 0, 1.5), batch(1, 1, 2.5), marker(1, 2, 4.2)]
    offsets = [batch(2, 0, 3.5), marker(2, 1, 4.2)]
    write_log(tmp_path, "batches", [*inputs, *outputs, *offsets])
    position = {"log_tp": 2, "log_offset": 0, "group": "shop", "tp": 0, "committed": 2, "transactional": True}
    write_log(tmp_path, "offsets", [position | {"timestamp_ms": ZERO_MS + 3500}])
    return tmp_path


def partition_panes(folder: Path) -> list[Pane]:
    """The panes of the run that are made from the logs of partitions."""
    return panes(Series(end_s=6.0), progress(Story(RunTables(folder), ()), AT_S, 6.0))


def test_lag_and_last_stable_offset_are_the_greatest_of_each_second(folder: Path) -> None:
    _, _, behind = partition_panes(folder)
    assert behind.at_s == [0, 1, 2, 3, 4, 5, 6]
    assert [line.values for line in behind.lines] == [[0, 1, 2, 2, 2, 0, 0]]
    lags = progress(Story(RunTables(folder), ()), AT_S, 6.0).lags
    assert {group: values.tolist() for group, values in lags.items()} == {"shop": [0, 1, 2, 2, 2, 0]}


def test_the_lag_is_drawn_if_several_groups_read(folder: Path) -> None:
    stages = [{"stage": name, "group": name, "in_topic": "purchases"} for name in ("shop", "audit")]
    write_table(folder, "stages", stages)
    (lag,) = (pane for pane in partition_panes(folder) if pane.name == "Lag of each group")
    assert {line.name for line in lag.lines} == {"shop", "audit"}


def test_a_pane_of_zeros_is_not_drawn(folder: Path) -> None:
    write_log(
        folder, "batches", [batch(0, 0, 1.0, transactional=False), batch(1, 0, 1.5, transactional=False)]
    )
    assert "Last stable offset behind the end, worst partition" not in [
        pane.name for pane in partition_panes(folder)
    ]


def test_inputs_are_drawn_beside_outputs_and_the_backlog_grows_until_the_group_passes_them(
    folder: Path,
) -> None:
    rates, backlog, _ = partition_panes(folder)
    assert rates.name == "Inputs and outputs per second"
    assert [(line.name, line.values) for line in rates.lines] == [
        ("inputs", [0, 1, 1, 0, 0, 0, 0]),
        ("outputs", [0, 0, 0, 0, 0, 0, 0]),
    ]
    assert backlog.name == "Backlog: inputs that no committed offset has passed"
    assert [line.values for line in backlog.lines] == [[0, 1, 2, 2, 2, 0, 0]]


def test_without_offsets_there_is_no_lag_and_without_logs_there_are_no_panes(folder: Path) -> None:
    (folder / "log" / "offsets.parquet").unlink()
    _, behind = partition_panes(folder)
    assert behind.name == "Last stable offset behind the end, worst partition"
    (folder / "log" / "batches.parquet").unlink()
    assert partition_panes(folder) == []


def test_a_value_holds_until_the_next_one_and_a_peak_within_an_interval_counts() -> None:
    time_ns = np.array([500, 4200, 4400, 9500], np.int64) * 1_000_000
    assert greatest(time_ns, np.array([3, 9, 1, 7]), range(0, 8, 2)).tolist() == [3, 3, 9, 1]
    assert greatest(time_ns, np.array([3, 9, 1, 7]), range(1, 3)).tolist() == [3, 3]
    assert greatest(np.array([], np.int64), np.array([], np.int64), range(2)).tolist() == [0, 0]
