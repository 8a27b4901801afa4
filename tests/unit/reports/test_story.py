"""What a story says about processes, producers, and the path of a record."""

import io
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from harness.record.table_reader import RunTables
from harness.results.example import Example
from harness.results.run_metadata import ProgramClient, RunMetadata, RunPhase
from harness.results.verdict import AnomalyFindings, FaultReport
from reports import pictures
from reports.pictures.axis import time_axis
from reports.pictures.lanes import LaneGroup
from reports.pictures.perfetto import IDS, write_trace
from reports.story import scopes
from reports.story.by_journals import of_record
from reports.story.counterexamples import counterexamples
from reports.story.model import Kind, Span
from reports.story.roles import ProducerUse, lives, process_at, producers
from reports.story.run import Story
from tests.support.histories import WALL_MS, History
from tests.support.stored_tables import write_store

KILL = FaultReport(
    *("kill-instance", "instance bill-1.0", 5.0, 5.5, True),
    *("process 7 ended by SIGKILL; bill-1.1 took its place", "instance bill-1.0 was killed"),
    {"worker": "bill-1.0"},
)
PAUSE = FaultReport(
    *("pause-instance", "instance bill-2.0", 3.0, 4.0, True, "stopped", "instance bill-2.0 was paused"),
    {"worker": "bill-2.0"},
)
STAGE = {
    "name": "bill",
    "writes": ["x"],
    "journaled": False,
    "workers": ["bill-1", "bill-2"],
    "transactional_ids": {"bill-1": "id-1", "bill-2": "id-2"},
}
PHASES = [RunPhase("workers", 1.0, 2.0), RunPhase("faults", 2.0, 8.0), RunPhase("drain", 8.0, 9.0)]


def program(folder: Path, *faults: FaultReport, **metadata: Any) -> Story:
    """The story of a run of a program without journals."""
    history = History()
    history.feed(2)
    history.transact(0, transactional_id="id-1")
    history.alter("journals", lambda row: None if row["role"] == "worker" else row)
    write_store(folder, [(1, history)], log=True)
    RunMetadata(phases=PHASES, faults=faults, **metadata).save(folder / "metadata.json")
    plan = {"run": {"wall_ms_at_zero": WALL_MS}, "workload": {"stages": [STAGE]}}
    (folder / "run.toml").write_text(tomli_w.dumps(plan))
    return Story(RunTables(folder))


def workload(folder: Path, *faults: FaultReport) -> Story:
    """The story of a run whose workers keep journals: `v-1.0` takes the input that `w-1.0` has not committed."""
    history = History()
    history.feed(1)
    history.transact(0, worker="w-1.0", outcome="fail", transactional_id="id-1")
    history.transact(0, worker="v-1.0", transactional_id="id-1")
    write_store(folder, [(1, history)], log=True)
    RunMetadata(faults=faults).save(folder / "metadata.json")
    return Story(RunTables(folder, WALL_MS))


def points(life: Span) -> list[tuple[str, int]]:
    return [(point.words, round((point.at_ns or 0) / 1e6)) for point in life.points]


def test_a_killed_instance_and_its_successor_are_two_lives(tmp_path: Path) -> None:
    found = {life.actor: life for life in lives(program(tmp_path, KILL))}
    assert list(found) == ["bill-1.0", "bill-1.1", "bill-2.0"]
    assert [(life.from_ns, life.to_ns) for life in found.values()] == [
        (1_000_000_000, 5_000_000_000),
        (5_500_000_000, 9_000_000_000),
        (1_000_000_000, 9_000_000_000),
    ]
    assert points(found["bill-1.0"]) == [("killed", 5000)]
    assert all(life.inferred and life.kind is Kind.LIFE for life in found.values())


def test_a_paused_instance_is_up_and_its_pause_is_known(tmp_path: Path) -> None:
    (paused,) = [life for life in lives(program(tmp_path, PAUSE)) if life.actor == "bill-2.0"]
    assert points(paused) == [("paused", 3000), ("resumed", 4000)]


def test_an_instance_that_joined_is_up_until_it_leaves(tmp_path: Path) -> None:
    scale = FaultReport(
        *(
            "scale-instances",
            "stage bill with bill-3 in addition",
            3.0,
            6.0,
            True,
            "",
            "instance bill-3.0 joined",
        ),
        {"worker": "bill-3.0"},
    )
    (joined,) = [life for life in lives(program(tmp_path, scale)) if life.actor == "bill-3.0"]
    assert (joined.from_ns, joined.to_ns) == (3_000_000_000, 6_000_000_000)


def test_an_instance_that_was_stopped_and_started_again_has_two_lives(tmp_path: Path) -> None:
    restart = FaultReport(
        *("restart-instance", "instance bill-1.0", 3.0, 4.0, True, "", "instance bill-1.0 was restarted"),
        {"worker": "bill-1.0"},
    )
    story = program(tmp_path, restart)
    (tmp_path / "workers").mkdir()
    (tmp_path / "workers" / "bill-1.1.log").write_text("")
    found = {life.actor: life for life in lives(story)}
    assert points(found["bill-1.0"]) == [("stopped", 3000)]
    assert (found["bill-1.0"].to_ns, found["bill-1.1"].from_ns) == (3_000_000_000, 4_000_000_000)


def test_an_instance_that_was_replaced_has_an_end_only_if_its_log_shows_one(tmp_path: Path) -> None:
    replaced = PAUSE.__class__(
        *(
            "pause-instance",
            "instance bill-2.0",
            3.0,
            4.0,
            True,
            "bill-2.1 took its place",
            "instance bill-2.0",
        ),
        {"worker": "bill-2.0"},
    )
    found = {life.actor: life for life in lives(program(tmp_path, replaced))}
    assert (found["bill-2.0"].to_ns, found["bill-2.1"].from_ns) == (None, 3_000_000_000)
    (tmp_path / "workers").mkdir()
    logged_at = datetime.fromtimestamp((WALL_MS + 4_200) / 1000, UTC).isoformat()
    for time in (
        logged_at,
        logged_at.replace("-", "/").replace("T", " ").replace(".", ":"),
    ):  # as Kafka's tools
        (tmp_path / "workers" / "bill-2.0.log").write_text(f"{time} ERROR it was fenced\n")
        found = {life.actor: life for life in lives(Story(RunTables(tmp_path)))}
        assert found["bill-2.0"].to_ns == 4_200_000_000


def test_an_instance_that_ended_by_itself_is_followed_when_the_next_one_logs(tmp_path: Path) -> None:
    """No fault stopped `bill-1.0`. The log of `bill-1.1` shows its start, and `bill-1.2` has logged nothing."""
    (tmp_path / "workers").mkdir()
    for process, times_ms in {"bill-1.0": [1_500, 2_250], "bill-1.1": [4_250, 6_500]}.items():
        stamps = [datetime.fromtimestamp((WALL_MS + time_ms) / 1000, UTC).isoformat() for time_ms in times_ms]
        text = "".join(f"{stamp} INFO polled\n" for stamp in stamps)
        (tmp_path / "workers" / f"{process}.log").write_text(text)
    (tmp_path / "workers" / "bill-1.2.log").write_text("")
    found = {life.actor: (life.from_ns, life.to_ns) for life in lives(program(tmp_path))}
    assert found["bill-1.0"] == (1_000_000_000, 2_250_000_000)
    assert found["bill-1.1"] == (4_250_000_000, 6_500_000_000)
    assert found["bill-1.2"] == (6_500_000_000, 9_000_000_000)


def test_a_life_by_journals_is_from_the_first_to_the_last_line(tmp_path: Path) -> None:
    story = workload(tmp_path)
    (tmp_path / "journals").mkdir()
    lines = [{"index": 0, "time": 7, "type": "begin"}, {"index": 1, "time": 90, "type": "end"}]
    text = "".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in lines)
    (tmp_path / "journals" / "w-1.0.jsonl").write_text(f'{text}{{"index":2,"ti')
    found = {life.actor: life for life in lives(story)}
    assert (found["w-1.0"].from_ns, found["w-1.0"].to_ns) == (7, 90)
    assert found["v-1.0"].from_ns > 90  # without its journal, by its operations


def test_the_process_of_an_id_is_its_instance_while_it_is_not_known_which_life(tmp_path: Path) -> None:
    story = program(tmp_path, KILL)
    assert process_at(story, "id-1", 2_000_000_000) == "bill-1.0"
    assert process_at(story, "id-1", 6_000_000_000) == "bill-1.1"
    assert process_at(story, "id-1", None) == "bill-1"
    assert process_at(story, "nobody", 6_000_000_000) == ""


def test_an_id_belonged_to_an_earlier_life_before_its_last_user(tmp_path: Path) -> None:
    """The requests name the process that used the id last."""
    story = program(tmp_path, KILL, program_clients={"bill-1.1": ProgramClient(["id-1"], None)})
    assert process_at(story, "id-1", 2_000_000_000) == "bill-1.0"
    assert process_at(story, "id-1", 6_000_000_000) == "bill-1.1"


def test_producers_say_which_process_used_which_ids(tmp_path: Path) -> None:
    clients = {"bill-1.0": ProgramClient(["id-1"], None)}
    assert producers(program(tmp_path, program_clients=clients)) == [ProducerUse("bill-1.0", "id-1", 1, 0, 0)]


def test_an_id_that_two_workers_used_has_a_row_for_each(tmp_path: Path) -> None:
    rows = producers(workload(tmp_path))
    assert [(row.process, row.transactional_id) for row in rows] == [("v-1.0", "id-1"), ("w-1.0", "id-1")]


def test_the_path_of_an_input_leads_through_its_outputs_to_their_readers(tmp_path: Path) -> None:
    history = History()
    history.feed(1)
    history.transact(0, transactional_id="id-1")
    write_store(tmp_path, [(1, history)], log=True)
    words = [
        f"{point.actor}: {point.words}" for point in of_record(Story(RunTables(tmp_path, WALL_MS)), "a", 0, 0)
    ]
    path = [
        "log of a/0: offset 0 is written by a producer without a producer id",
        "w: w:0 begins a transaction as id-1 to commit with 1 record for inputs a/0 @ 0",
        "log of x/0: offset 0 is written by producer 1 epoch 0 (id-1 of w)",
        "z: reads x/0 @ 0 of w:0",
    ]
    assert [each for each in words if each in path] == path


def test_no_picture_reads_the_tables_of_a_story() -> None:
    """A contract forbids the modules. The story has the tables as an attribute, for its own room."""
    files = sorted(Path(pictures.__file__).parent.glob("*.py"))
    assert files and not [
        file.name for file in files if re.search(r"\.tables\b", file.read_text(encoding="utf-8"))
    ]


@pytest.mark.parametrize("journaled", [True, False])
def test_an_event_has_one_time_in_the_axis_the_trace_the_export_and_the_diagram(
    tmp_path: Path, journaled: bool
) -> None:
    history = History()
    history.feed(1)
    history.transact(0, worker="w", transactional_id="id-1")
    old = {"max_timestamp_ms": int(WALL_MS) - 5_000}  # of an old input
    of_records = (history.tp["x"], False)
    history.alter("batches", lambda row: row | old if (row["tp"], row["control"]) == of_records else row)
    history.alter("stages", lambda row: row | {"journaled": journaled})
    write_store(tmp_path, [(1, history)], log=True)
    stage = {"name": "s", "writes": ["x"], "journaled": journaled}
    plan = {"run": {"wall_ms_at_zero": WALL_MS}, "workload": {"stages": [stage]}}
    (tmp_path / "run.toml").write_text(tomli_w.dumps(plan))
    story = Story(RunTables(tmp_path))
    value = "w:0:0" if journaled else None
    example = Example.from_json({"record": {"topic": "x", "partition": 0, "offset": 0, "value": value}})
    (found,) = counterexamples(story, [("G1a", AnomalyFindings(1, examples=[example]))])

    def drawn(kind: Kind) -> set[int]:
        return {each.at_ns for each in found.diagram.messages if each.kind is kind and each.at_ns is not None}

    traced = [*scopes.of_record(story, "x", 0, 0), *scopes.of_id(story, "id-1")]
    for kind in (Kind.STATE, Kind.MARKER, Kind.RECORD):
        assert drawn(kind) and drawn(kind) <= {point.at_ns for point in traced if point.kind is kind}
    axis = time_axis(story)
    assert not axis.missing
    (lane,) = [lane for lane in axis.lanes if lane.group is LaneGroup.TRANSACTIONS]
    assert [bar.from_ms for bar in lane.bars] == [round(at_ns / 1e6) for at_ns in sorted(drawn(Kind.BEGIN))]
    stream = io.BytesIO()
    write_trace(stream, story, None)
    events = [event for event in json.loads(stream.getvalue())["traceEvents"] if event["ph"] == "X"]
    exported_ms = {event["ts"] // 1_000 for event in events if event["cat"] != IDS}
    exported_ms |= {event["ts"] // 1_000 for event in events if event["name"].startswith("coordinator")}
    of_brokers_ns = drawn(Kind.STATE) | drawn(Kind.MARKER) | drawn(Kind.RECORD)
    assert {at_ns // 1_000_000 for at_ns in of_brokers_ns} <= exported_ms
