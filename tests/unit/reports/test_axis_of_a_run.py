"""The data of the time axis, from the tables of a small run."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tomli_w

from harness.record.schema import LOG
from harness.record.table_reader import RunTables
from harness.results.example import Example
from harness.results.run_metadata import RunPhase
from harness.results.verdict import FaultReport
from reports.pictures.axis import TimeAxis, embed, time_axis
from reports.pictures.lanes import MOST_LANES, AxisBar, Lane, LaneGroup
from reports.story.run import Story
from reports.story.subjects import ShownFinding, spans
from tests.support.changed_requests import write_held_requests
from tests.support.synthetic_store import MS, write_table

ZERO_MS = 1_795_255_200_000
PARTITIONS = [("purchases", 0), ("invoices", 0), ("__consumer_offsets", 0), ("__transaction_state", 0)]
Row = Mapping[str, Any]


def op(
    number: int, begin_s: float, end_s: float | None, outcome: str = "ok", **changes: Any
) -> dict[str, Any]:
    body = {
        "op": number,
        "name": f"shop-1.0:{number}",
        "journal": "shop-1.0",
        "stage": "shop",
        "f": "txn",
        "outcome": outcome,
        "asked": "commit",
        "transactional_id": "shop-1",
        "call_ns": round(begin_s * 1e9),
        "commit_ns": None if end_s is None else round(end_s * 1e9) - 20 * MS,
        "return_ns": None if end_s is None else round(end_s * 1e9),
        "fenced": False,
    }
    return body | changes


def owned(at_s: float, gained: bool, tp: int, journal: str = "shop-1.0") -> dict[str, Any]:
    return {"journal": journal, "group": "shop", "time_ns": round(at_s * 1e9), "gained": gained, "tp": tp}


def batch(tp: int, offset: int, at_s: float, **changes: Any) -> dict[str, Any]:
    body = {
        "leader": True,
        "tp": tp,
        "base_offset": offset,
        "last_offset": offset,
        "count": 1,
        "producer_id": 7,
    }
    body |= {"epoch": 0, "transactional": True, "control": False, "marker": None, "coordinator_epoch": None}
    return body | {"leader_epoch": 3, "max_timestamp_ms": ZERO_MS + round(at_s * 1000)} | changes


def write_log(folder: Path, name: str, rows: Sequence[Row]) -> None:
    (folder / "log").mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(list(rows), schema=LOG[name])
    pq.write_table(table, folder / "log" / f"{name}.parquet")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    partitions = [{"tp": tp, "topic": topic, "partition": n} for tp, (topic, n) in enumerate(PARTITIONS)]
    write_table(tmp_path, "partitions", partitions)
    (tmp_path / "run.toml").write_text(tomli_w.dumps({"run": {"wall_ms_at_zero": ZERO_MS}}))
    return tmp_path


def draw(
    folder: Path,
    *,
    faults: Sequence[FaultReport] = (),
    phases: Sequence[RunPhase] = (),
    **changes: Any,
) -> TimeAxis:
    return time_axis(Story(RunTables(folder), faults, phases), **changes)


def lanes(axis: TimeAxis, group: LaneGroup) -> dict[str, Sequence[AxisBar]]:
    return {lane.name: lane.bars for lane in axis.lanes if lane.group is group}


def test_each_transactional_id_has_a_lane_whose_bars_say_how_transactions_ended(folder: Path) -> None:
    rows = [
        op(1, 1.0, 1.5),
        op(2, 2.0, 2.1, "fail", asked="abort"),
        op(3, 3.0, None, "info", error="the process was killed"),
        op(4, 1.0, 9.0, "fail", transactional_id="shop-2", fenced=True),
        op(5, 4.0, 4.2, f="send"),
    ]
    write_table(folder, "ops", rows)
    found = lanes(draw(folder), LaneGroup.TRANSACTIONS)
    assert found == {
        "shop-1": [
            AxisBar(1000, 1500, "committed", text="shop-1.0:1"),
            AxisBar(2000, 2100, "aborted on purpose", text="shop-1.0:2"),
            AxisBar(3000, None, "unknown", text="shop-1.0:3, the process was killed"),
        ],
        "shop-2": [AxisBar(1000, 9000, "failed", text="shop-1.0:4, fenced")],
    }


def test_a_member_owns_partitions_until_it_loses_them_or_until_its_last_operation(folder: Path) -> None:
    write_table(folder, "ops", [op(1, 1.0, 1.5), op(2, 7.0, 7.5)])
    changes = [owned(1.0, True, 0), owned(3.0, True, 1), owned(4.0, False, 0), owned(4.0, False, 1)]
    write_table(folder, "assignments", [*changes, owned(6.0, True, 1)])
    assert lanes(draw(folder), LaneGroup.MEMBERS) == {
        "shop-1.0": [
            AxisBar(1000, 3000, "owns partitions", text="1 partition: purchases/0 (group shop)"),
            AxisBar(
                3000, 4000, "owns partitions", text="2 partitions: invoices/0 and purchases/0 (group shop)"
            ),
            AxisBar(6000, 7500, "owns partitions", text="1 partition: invoices/0 (group shop)"),
        ]
    }


def test_a_change_of_a_leader_is_at_the_first_batch_with_the_new_epoch(folder: Path) -> None:
    rows = [batch(1, 0, 1.0), batch(1, 1, 2.0), batch(1, 2, 5.0, leader_epoch=4), batch(0, 0, 1.0)]
    follower = batch(1, 1, 3.0, leader=False, leader_epoch=9)
    write_log(folder, "batches", [*rows, follower, batch(2, 0, 1.0), batch(2, 1, 6.0, leader_epoch=5)])
    write_log(folder, "offsets", [{"log_tp": 2, "group": "shop", "tp": 0}])
    assert lanes(draw(folder), LaneGroup.LEADERS) == {
        "leaders of partitions": [AxisBar(5000, 5000, "new leader", text="invoices/0: epoch 3 to 4")],
        "coordinators of groups": [
            AxisBar(
                6000, 6000, "new coordinator", text="__consumer_offsets/0, coordinator of shop: epoch 3 to 5"
            )
        ],
        "invoices/0": [
            AxisBar(1000, 5000, "a leader epoch", text="leader epoch 3"),
            AxisBar(5000, None, "a leader epoch", text="leader epoch 4"),
        ],
    }


def test_a_change_of_a_transaction_coordinator_is_at_the_first_marker_with_its_epoch(folder: Path) -> None:
    def marker(offset: int, at_s: float, epoch: int) -> dict[str, Any]:
        return batch(1, offset, at_s, control=True, marker="commit", coordinator_epoch=epoch)

    late = marker(9, 5.0, 1)  # it has the time stamp of the first marker of the new epoch
    write_log(folder, "batches", [marker(1, 1.0, 1), marker(3, 2.0, 1), marker(5, 5.0, 2), late])
    write_log(folder, "transactions", [{"producer_id": 7, "log_tp": 3, "transactional_id": "shop-1"}])
    (bar,) = lanes(draw(folder), LaneGroup.LEADERS)["coordinators of transactions"]
    assert bar == AxisBar(
        5000, 5000, "new coordinator", text="__transaction_state/0, coordinator of transactions: epoch 1 to 2"
    )


def fault(start_s: float, end_s: float | None, acted: bool = True) -> FaultReport:
    return FaultReport("kill-broker", "broker 2", start_s, end_s, acted, "", "broker 2 was killed")


def test_faults_that_overlap_are_in_different_lanes(folder: Path) -> None:
    write_table(folder, "ops", [op(1, 1.5, 20.0)])
    axis = draw(folder, faults=[fault(2.0, 4.0), fault(3.0, 9.0, False), fault(4.0, None)])
    assert [lane.bars for lane in axis.lanes if lane.group is LaneGroup.FAULTS] == [
        [
            AxisBar(2000, 4000, "fault", text="1 kill-broker: broker 2 was killed", anchor="fault-1"),
            AxisBar(4000, None, "fault", text="3 kill-broker: broker 2 was killed", anchor="fault-3"),
        ],
        [
            AxisBar(
                3000,
                9000,
                "fault that did not act",
                text="2 kill-broker: broker 2 was killed",
                anchor="fault-2",
            )
        ],
    ]
    assert (axis.from_s, axis.to_s) == (1.0, 21.0)  # from the start of the transaction


def test_a_changed_request_lasts_until_it_was_answered_and_its_delivery_is_marked(folder: Path) -> None:
    write_table(folder, "ops", [op(1, 1.0, 9.0)])
    write_held_requests(folder, "shop-1")
    request, delivered = lanes(draw(folder), LaneGroup.REQUESTS)["shop-1"]
    assert (request.from_ms, request.to_ms, request.kind) == (3214, 4420, "changed request")
    assert (delivered.from_ms, delivered.to_ms, delivered.kind) == (4414, 4414, "delivered to a broker")
    assert request.text.startswith("EndTxn(abort) 41 of shop-1: at 3.214 s sent, and held by late-end-txn;")


def test_lanes_that_a_finding_names_come_first_when_there_are_too_many(folder: Path) -> None:
    write_table(folder, "ops", [op(n, 1.0, 1.0 + n / 100, transactional_id=f"id-{n}") for n in range(1, 200)])
    example = Example.from_json({"operation": {"transactional_id": "id-150", "name": "x"}})
    axis = draw(folder, examples=[example], phases=[RunPhase("faults", 0.0, 3.0)])
    assert len(axis.lanes) == MOST_LANES
    assert [lane.name for lane in axis.lanes if lane.of_finding] == ["id-150"]
    assert axis.lanes[0] == Lane(LaneGroup.PHASES, "phases", [AxisBar(0, 3000, "phase", text="faults")])


def test_the_size_does_not_grow_with_the_number_of_transactions(folder: Path) -> None:
    ids = [f"shop-{n}" for n in range(60)]
    rows = [op(n, n / 100, n / 100 + 0.1, transactional_id=ids[n % 60]) for n in range(48_000)]
    write_table(folder, "ops", rows)
    axis = draw(folder)
    assert len(axis.lanes) == MOST_LANES and axis.left_out == {LaneGroup.TRANSACTIONS: 10}
    assert sum(bar.count for lane in axis.lanes for bar in lane.bars) == 48_000 / 60 * 50
    assert len(embed(axis.as_json())) < 1_000_000


def test_an_example_is_placed_by_its_operations_or_else_by_the_time_of_its_records(folder: Path) -> None:
    write_log(folder, "batches", [batch(1, 0, 1.0, last_offset=4), batch(1, 5, 2.5), batch(0, 5, 9.0)])
    writer = {"call_ns": 1_000_000_000, "return_ns": 2_000_000_000}
    reader = {"call_ns": 70_000_000_000, "return_ns": 71_000_000_000}

    def record(offset: int) -> dict[str, Any]:
        return {"topic": "invoices", "partition": 0, "offset": offset}

    examples = [
        {"operation": writer, "reader": reader},
        {"reader": reader},
        {"records": [record(3), record(5)]},
        {"record": record(6)},
        {"input": {"topic": "purchases", "partition": 0, "offset": 5}},
        {"group": "shop"},
        {
            "group": "shop",
            "input": {"topic": "purchases", "partition": 0, "offset": 5},
            "from_s": 3.0,
            "to_s": 8,
        },
        {"group": "shop", "from_s": 3.0, "to_s": 1e300},
        {"group": "shop", "from_s": "3", "to_s": 8},
    ]
    assert spans(Story(RunTables(folder)), [Example.from_json(each) for each in examples]) == [
        (1.0, 2.0),
        (70.0, 71.0),
        (1.0, 2.5),
        None,
        (9.0, 9.0),
        None,
        (3.0, 8.0),
        None,
        None,
    ]


def test_the_axis_goes_on_to_the_end_of_a_finding_while_nothing_is_committed(folder: Path) -> None:
    write_table(folder, "ops", [op(1, 1.0, 9.0)])
    stall = ShownFinding("stalled", "stalled-1", "the group stalled", (5.0, 232.0), decides=False)
    assert draw(folder, findings=[stall], phases=[RunPhase("drain", 10.0, 232.5)]).to_s == 232.0
    assert (
        draw(folder, findings=[stall], phases=[RunPhase("drain", 10.0, 99.0)]).to_s == 99.0
    )  # the run had ended
    assert draw(folder, phases=[RunPhase("drain", 10.0, 232.5)]).to_s < 11


def test_findings_have_a_lane_for_each_anomaly(folder: Path) -> None:
    write_table(folder, "ops", [op(1, 1.0, 9.0)])
    findings = [
        ShownFinding("lost-commit", "lost-commit-1", "a commit was lost", (2.0, 3.0)),
        ShownFinding("lost-commit", "lost-commit-2", "another one", None),
        ShownFinding("G0", "G0-1", "a cycle", (1.0, 1.5), decides=False),
    ]
    assert lanes(draw(folder, findings=findings), LaneGroup.FINDINGS) == {
        "lost-commit": [AxisBar(2000, 3000, "finding", text="a commit was lost", anchor="lost-commit-1")],
        "G0": [AxisBar(1000, 1500, "finding that does not decide", text="a cycle", anchor="G0-1")],
    }


def test_panes_have_throughput_and_latency_by_second(folder: Path) -> None:
    write_table(folder, "ops", [op(1, 0.1, 0.5), op(2, 2.1, 2.5), op(3, 2.2, 2.6)])
    write_table(folder, "sends", [{"op": number, "tp": 1} for number in (1, 2, 2, 3)])
    rate, records, latency = draw(folder).panes
    assert (rate.at_s, rate.lines[0].values) == ([0, 1, 2, 3.0], [1, 0, 2, 2])
    assert records.lines[0].values == [1, 0, 3, 3]
    assert latency.at_s == [0.5, 1.5, 2.5] and latency.log_scale
    assert [line.name for line in latency.lines] == ["median", "99 %"]
    median = latency.lines[0].values
    assert median[1] is None and median[0] == pytest.approx(20, rel=0.05)


def test_warnings_outside_the_shown_time_are_left_out(folder: Path) -> None:
    write_table(folder, "ops", [op(1, 5.0, 5.5)])
    (folder / "brokers" / "1").mkdir(parents=True)
    zero = datetime.fromtimestamp(ZERO_MS / 1000, UTC)
    times = [(second, (zero + timedelta(seconds=second)).isoformat()) for second in (1, 5, 50)]
    text = "\n".join(f"{time} WARN slow {second}" for second, time in times)
    (folder / "brokers" / "1" / "server.log").write_text(text)
    axis = draw(folder)
    assert [line.text for line in axis.log_lines] == ["slow 5"]
    assert lanes(axis, LaneGroup.LOGS) == {"broker 1": [AxisBar(5000, 5000, "warning", text="slow 5")]}


def test_a_damaged_table_is_noted_and_the_other_lanes_are_drawn(folder: Path) -> None:
    write_table(folder, "ops", [op(1, 1.0, 2.0)])
    (folder / "log").mkdir()
    (folder / "log" / "batches.parquet").write_bytes(b"PAR1")
    axis = draw(folder)
    (note,) = axis.missing
    assert note.startswith("log/batches.parquet cannot be read")
    assert lanes(axis, LaneGroup.TRANSACTIONS)


def test_a_folder_without_tables_has_an_empty_axis(tmp_path: Path) -> None:
    axis = draw(tmp_path, faults=[fault(1.0, 2.0)], phases=[RunPhase("faults", 0.0, 3.0)])
    assert axis.empty
    json.loads(embed(axis.as_json()))


def test_embedded_data_cannot_end_its_element() -> None:
    hostile = {"</script><script>alert(1)</script><!--": "<!-- \ud800 \u2028"}
    text = embed(hostile)
    assert "<" not in text and text.isascii()
    assert json.loads(text) == hostile
