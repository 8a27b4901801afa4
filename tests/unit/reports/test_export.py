"""The trace of a small run: it keeps to the Trace Event Format, and it agrees with the tables."""

import gzip
import io
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fencepost.cli import run_command_line
from harness.record.table_reader import RunTables
from harness.record.timeline.load import load
from harness.results.example import Example
from harness.results.run_metadata import ProgramClient, RunMetadata, RunPhase
from harness.results.verdict import AnomalyFindings, FaultReport, Validity, Verdict
from reports.pictures import perfetto, tracks
from reports.pictures.perfetto import TraceSummary, write_trace
from reports.pictures.tracks import Slice, Tracks
from reports.story import progress, samples
from reports.story.run import Story
from reports.story.samples import Intervals, Sampler, sample
from tests.support.changed_requests import write_held_requests
from tests.support.histories import TRANSACTIONS, WALL_MS, History
from tests.support.needs import skip_or_fail, trace_processor
from tests.support.stored_tables import write_store
from tests.support.trace_format import (
    Event,
    paths_of,
    problems,
    process_names,
    read_trace,
    slices_of,
    thread_names,
)

FAULT = FaultReport("kill-broker", "broker 2", 0.004, 0.02, True, "killed", "broker 2 was killed")
END_S = 5.0
METADATA = RunMetadata(
    phases=[RunPhase("workers", 0.0, 1.0), RunPhase("drain", 1.0, END_S)], faults=[FAULT], rows={}
)
LOST = AnomalyFindings(
    1,
    examples=[Example.from_json({"record": {"topic": "x", "partition": 0, "offset": 1}})],
    sentences=["content"],
)
VERDICT = Verdict("runs/1", "shop", 1, Validity.INVALID.json, "", {"lost-write": LOST}, faults=[FAULT])


def set_state_times(history: History, times_ms: dict[int, int]) -> None:
    """Write states of the transaction log, by their offset, at these times."""

    def at_its_time(column: str, offset: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
        return lambda row: (
            row | {column: int(WALL_MS) + times_ms.get(row[offset], int(row[column] - WALL_MS))}
        )

    log = history.tp[TRANSACTIONS]
    in_log = at_its_time("max_timestamp_ms", "base_offset")
    history.alter("transactions", at_its_time("update_ms", "log_offset"))
    history.alter("batches", lambda row: in_log(row) if row["tp"] == log else row)


def one_run() -> History:
    """A run with commits, a fenced transaction, and an unknown one that stays open.

    The coordinator completes the first commit two milliseconds after the client got the response.
    """
    history = History()
    history.feed(6)
    history.transact(0, 1, transactional_id="id-1")
    history.transact(2, outcome="fail", transactional_id="id-1", fenced=True, error="fenced")
    history.transact(3, worker="v", pid=2, transactional_id="id-2")
    history.transact(4, worker="v", pid=2, outcome="info", fate="open", transactional_id="id-2")
    poll = history.op("o", "poll")
    history.poll(poll, "x", 0, history.entries["x"][0]["value"], role="observer")
    set_state_times(history, {1: 14, 2: 17})
    return history


def store(
    folder: Path, history: History, *, log: bool = True, metadata: RunMetadata | None = METADATA
) -> Path:
    write_store(folder, [(1, history)], log=log)
    (folder / "run.toml").write_text(f"[run]\nwall_ms_at_zero = {WALL_MS}\n")
    if metadata is not None:
        metadata.save(folder / "metadata.json")
    return folder


def export(
    folder: Path, verdict: Verdict | None = VERDICT
) -> tuple[list[Event], TraceSummary, dict[str, Any]]:
    stream = io.BytesIO()
    summary = write_trace(stream, Story(RunTables(folder), verdict.faults if verdict else None), verdict)
    trace = json.loads(stream.getvalue())
    return trace["traceEvents"], summary, trace["otherData"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_held_requests(store(tmp_path, one_run()), "id-1", "id-2", sent_s=0.01)
    return tmp_path


def differences(events: list[Event], folder: Path) -> list[str]:
    """What the trace has other than the tables. Empty: nothing."""
    t = RunTables(folder)
    timeline = load(t)
    drawn = Counter(
        (event["name"], event["ts"])
        for event in slices_of(events, "transactional ids")
        if "stage" in event["args"]
    )
    stored = Counter((row["ending"], row["begin_ns"] // 1_000) for row in timeline.transactions.to_pylist())
    found = [] if drawn == stored else [f"transactions: {drawn} instead of {stored}"]
    for row in timeline.transactions.to_pylist():
        ends = [
            event["ts"] + event["dur"]
            for event in events
            if event.get("args", {}).get("operation") == row["name"]
        ]
        if row["end_ns"] is not None and set(ends) != {row["end_ns"] // 1_000}:
            found.append(f"{row['name']} ends at {ends}")
    # A batch is a slice of a millisecond, or of a part of it.
    milliseconds = Counter(event["ts"] // 1_000 for event in slices_of(events, "partitions"))
    stored_ms = Counter(int(row["max_timestamp_ms"] - WALL_MS) for row in t.rows("batches", leader=[True]))
    found += [] if milliseconds == stored_ms else [f"batches: {milliseconds} instead of {stored_ms}"]
    records = sum(event["args"].get("records", 0) for event in slices_of(events, "partitions"))
    in_log = sum(row["count"] for row in t.rows("batches", leader=[True], control=[False]))
    found += [] if records == in_log else [f"{records} records in batches instead of {in_log}"]
    counts = {
        "faults": len(t.metadata.faults),
        "phases of the run": 1 + len(t.metadata.phases),
        "readers": len([row for row in t.rows("ops", f=["poll"]) if row["journal"][0] in "oz"]),
        "requests that a rule changed": len(t.protocol.changed),
    }
    for process, count in counts.items():
        own = slices_of(events, process)
        found += [] if len(own) == count else [f"{process}: {len(own)} slices instead of {count}"]
    last = max(event["ts"] + event.get("dur", 0) for event in events)
    return found if last == END_S * 1e6 else [*found, f"the last slice ends at {last} microseconds"]


def test_a_trace_keeps_to_the_format_and_agrees_with_the_tables(folder: Path) -> None:
    events, summary, _ = export(folder)
    assert problems(events) == []
    assert differences(events, folder) == []
    assert summary.events == len(events) and not summary.missing
    assert {event["ph"] for event in events} == set("MXiCstf")


def without(phase: str) -> Callable[[list[Event]], list[Event]]:
    return lambda events: [event for event in events if event["ph"] != phase]


def changed(phase: str, **changes: Any) -> Callable[[list[Event]], list[Event]]:
    return lambda events: [event | changes if event["ph"] == phase else event for event in events]


def without_key(key: str) -> Callable[[list[Event]], list[Event]]:
    return lambda events: [{name: value for name, value in event.items() if name != key} for event in events]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (without("f"), "has the phases s"),
        (without("s"), "has the phases"),
        (changed("t", ts=0.5), "has the phases"),
        (changed("f", ts=END_S * 1e6), "binds to no slice"),
        (changed("f", bp=None), "binds to the next slice"),
        (changed("X", dur=0), "no dur"),
        (changed("X", dur=1.5), "no dur"),
        (changed("i", ts=1), "outside any slice"),
        (changed("X", ts=-1), "negative time"),
        (changed("C", args={"per second": "many"}), "without numbers"),
        (changed("M", name="name"), "has no name"),
        *((without_key(key), f"{key} is missing") for key in ("ph", "ts", "pid", "tid")),
    ],
)
def test_the_test_of_the_format_finds_a_wrong_event(
    change: Callable[[list[Event]], list[Event]], words: str, folder: Path
) -> None:
    found = problems(change(export(folder)[0]))
    assert found and any(words in problem for problem in found), found[:3]


@pytest.mark.parametrize(
    ("phases", "words"), [("B", "begins without an end"), ("E", "end without a begin"), ("BE", "")]
)
def test_the_test_of_the_format_pairs_begins_and_ends(phases: str, words: str, folder: Path) -> None:
    events = export(folder)[0]
    thread = {key: slices_of(events, "faults")[0][key] for key in ("pid", "tid")}
    events += [{"ph": phase, "ts": 5 + n, "name": "n", **thread} for n, phase in enumerate(phases)]
    assert bool(problems(events)) is bool(words) and all(words in problem for problem in problems(events))


def lose_the_last_step(monkeypatch: pytest.MonkeyPatch) -> None:
    original = tracks._bind
    monkeypatch.setattr(tracks, "_bind", lambda anchors: [(at, anchors[0]) for at, _ in original(anchors)])


def accept_every_child(monkeypatch: pytest.MonkeyPatch) -> None:
    def nest(parent: Slice, child: Slice) -> bool:
        parent.children.append(child)
        return True

    monkeypatch.setattr(Slice, "nest", nest)


def write_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perfetto, "microseconds", lambda time_ns: max(0, int(time_ns // 1_000_000)))


def bind_behind_the_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    original = tracks._bind
    monkeypatch.setattr(
        tracks,
        "_bind",
        lambda anchors: [(anchor.until_us + 0.5 + at % 1, anchor) for at, anchor in original(anchors)],
    )


def use_one_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    thread = Tracks._thread
    monkeypatch.setattr(
        Tracks,
        "_thread",
        lambda self, pid, name: thread(self, pid, name) if "lane" not in name else pid * 1_000_000 + 1,
    )


@pytest.mark.parametrize(
    "plant", [lose_the_last_step, accept_every_child, write_milliseconds, bind_behind_the_slice, use_one_lane]
)
def test_a_bug_in_the_export_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    events = export(folder)[0]
    assert problems(events) or differences(events, folder)


def names(events: list[Event]) -> list[list[str]]:
    """For each flow: the process and the name of each slice on it."""
    processes = process_names(events)
    return [
        [f"{processes[each['pid']]}: {each['name']}" for each in path] for path in paths_of(events).values()
    ]


def test_a_flow_leads_from_an_input_to_its_transaction_output_marker_and_reader(folder: Path) -> None:
    events = export(folder)[0]
    whole = [
        "partitions: records outside transactions",
        "processes: transaction: ok",
        "partitions: committed records",
        "partitions: commit marker",
        "readers: poll",
    ]
    assert Counter(map(tuple, names(events)))[tuple(whole)] == 3
    aborted = [path for path in names(events) if "processes: transaction: fail" in path]
    assert aborted == [
        [whole[0], "processes: transaction: fail", "partitions: aborted records", "partitions: abort marker"]
    ]
    still_open = [path for path in names(events) if "processes: transaction: info" in path]
    assert still_open == [
        [whole[0], "processes: transaction: info", "partitions: records of an open transaction"]
    ]
    offsets = [[each["args"].get("offset") for each in path[::2]] for path in paths_of(events).values()]
    assert [0, 0, None] in offsets and [1, 1, None] in offsets  # a/0 and x/0, in the order of the transaction


def without_journals(folder: Path) -> Path:
    """Store the run of a program: its outputs have no headers, and join their inputs by a correlation key."""
    history = one_run()
    history.alter("stages", lambda row: row | {"journaled": False})
    history.alter("expected", lambda row: row | {"correlation_key": f"secret-{row['offset']}"})

    def joined(row: dict[str, Any]) -> dict[str, Any]:
        key = f"secret-{row['inputs'][0]['offset']}" if row["inputs"] else None
        return row | {
            "inputs": [],
            "value": None,
            "correlation_key": key,
            "content": "secret",
            "key": "secret",
        }

    history.alter("records", joined)
    store(folder, history)
    settings = '[[workload.stages]]\nname = "s"\nwrites = ["x"]\njournaled = false\n'
    settings += '[workload.stages.transactional_ids]\nworker-1 = "id-1"\n'
    (folder / "run.toml").write_text((folder / "run.toml").read_text() + settings)
    return folder


def test_outputs_of_a_program_join_their_inputs_by_correlation_key(tmp_path: Path) -> None:
    events, summary, _ = export(without_journals(tmp_path))
    assert problems(events) == [] and not summary.missing
    whole = ["records outside transactions", "committed records", "commit marker"]
    paths = [[each["name"] for each in path[:3]] for path in paths_of(events).values()]
    assert paths.count(whole) == 3
    threads = thread_names(events)
    assert "worker-1" in {threads[each["tid"]] for each in slices_of(events, "processes")}


def test_an_instance_has_the_transactions_of_its_ids_and_its_faults(tmp_path: Path) -> None:
    without_journals(tmp_path)
    client = ProgramClient(["id-2"], False)
    fault = FaultReport(
        "pause-instance", "p-2.1", 0.0, 1.0, True, "", "p-2.1 was paused", {"worker": "p-2.1"}
    )
    RunMetadata(program_clients={"p-2.1": client}, faults=[fault]).save(tmp_path / "metadata.json")
    events = export(tmp_path, None)[0]
    threads = thread_names(events)
    own = [(threads[each["tid"]], each["name"]) for each in slices_of(events, "processes")]
    drawn = [each for each in own if each[0].startswith("p-2.1")]
    assert problems(events) == []
    assert sorted(drawn) == [
        ("p-2.1", "fault: p-2.1 was paused"),
        ("p-2.1 (lane 2)", "committed"),
        ("p-2.1 (lane 2)", "left open"),
    ]


def test_no_content_of_records_and_no_secret_is_in_a_trace(tmp_path: Path) -> None:
    without_journals(tmp_path / "program")
    events, _, about = export(tmp_path / "program")
    assert "secret" not in json.dumps([events, about])
    history = History()
    history.feed(1)
    history.transact(0, key="secret-key", outcome="fail", error="sasl.password=secret-word refused")
    fault = FaultReport("kill-broker", "http://u:secret@b", 0.1, None, True, "token=secret", "token=secret")
    store(tmp_path / "own", history, metadata=RunMetadata(faults=[fault]))
    events, _, about = export(tmp_path / "own", None)
    assert "secret" not in json.dumps([events, about]) and "refused" in json.dumps(events)


def test_overlapping_transactions_of_an_id_are_on_two_lanes(tmp_path: Path) -> None:
    history = History()
    history.feed(2)
    first = history.transact(0, transactional_id="id-1")
    history.transact(1, worker="v", pid=2, transactional_id="id-1")
    history.alter("ops", lambda row: row | {"return_ns": 90_000_000} if row["op"] == first.op else row)
    events = export(store(tmp_path, history))[0]
    threads = thread_names(events)
    lanes = {
        each["args"]["operation"]: threads[each["tid"]]
        for each in slices_of(events, "transactional ids")
        if "operation" in each["args"]
    }
    assert problems(events) == [] and lanes == {"w:0": "id-1", "v:0": "id-1 (lane 2)"}


def coordinator_parts(folder: Path, history: History) -> list[tuple[str, str]]:
    events = export(store(folder, history))[0]
    assert problems(events) == []
    threads = thread_names(events)
    own = slices_of(events, "transactional ids")
    return [(each["name"], threads[each["tid"]]) for each in own if each["name"].startswith("coordinator")]


def test_the_coordinators_part_is_inside_its_transaction_if_it_fits(tmp_path: Path) -> None:
    for folder, completed_ms, lane in (("late", 9, "id-1 (lane 2)"), ("inside", 5, "id-1")):
        history = History()
        history.feed(1)
        history.transact(0, transactional_id="id-1")  # from 3 to 5 ms
        set_state_times(history, {1: 4, 2: completed_ms})
        assert coordinator_parts(tmp_path / folder, history) == [("coordinator: commit", lane)]


def test_a_commit_that_is_not_complete_lasts_until_the_end_of_the_run(tmp_path: Path) -> None:
    history = History()
    history.feed(1)
    history.transact(0, transactional_id="id-1")
    history.alter("transactions", lambda row: None if row["state"].startswith("Complete") else row)
    events = export(store(tmp_path, history))[0]
    own = slices_of(events, "transactional ids")
    (part,) = [each for each in own if each["name"].startswith("coordinator")]
    assert part["ts"] + part["dur"] == END_S * 1e6 and part["args"]["to"] == "not complete"


def test_counters_have_the_lag_and_the_distance_of_the_last_stable_offset(folder: Path) -> None:
    events = export(folder)[0]
    last = {event["name"]: event["args"] for event in events if event["ph"] == "C"}
    # a/0 has six inputs and a sentinel, of which the group has committed four. In x/0, a transaction is open below
    # the sentinel.
    assert last["lag of g"] == {"records": 3}
    assert last["distance of the last stable offset"] == {"records": 2}


def test_a_delivered_request_has_a_mark_and_lasts_until_its_answer(folder: Path) -> None:
    events = export(folder)[0]
    (first, _) = slices_of(events, "requests that a rule changed")
    assert first["name"] == "EndTxn(abort) held by late-end-txn" and (first["ts"], first["dur"]) == (
        10_000,
        1_206_000,
    )
    assert [(each["name"], each["ts"]) for each in events if each["ph"] == "i"] == [
        ("delivered", 1_210_000)
    ] * 2


def test_batches_of_one_millisecond_share_it_in_the_order_of_their_offsets(tmp_path: Path) -> None:
    history = History()
    history.feed(4)
    history.alter("batches", lambda row: row | {"max_timestamp_ms": int(WALL_MS) + 7})
    events = export(store(tmp_path, history))[0]
    threads = thread_names(events)
    own = [each for each in slices_of(events, "partitions") if threads[each["tid"]] == "a/0"]
    spans = [(each["args"]["offset"], each["ts"], each["dur"]) for each in own]
    assert spans == [
        (offset, 7_000 + 200 * offset, 200) for offset in range(5)
    ]  # the last one is the sentinel


def test_records_outside_the_time_of_the_run_are_counted_and_not_drawn(tmp_path: Path) -> None:
    history = History()
    history.feed(2)
    history.alter("batches", lambda row: row | {"max_timestamp_ms": 1} if row["base_offset"] == 1 else row)
    events, summary, about = export(store(tmp_path, history))
    assert problems(events) == []
    words = "the time stamps of 1 batch are outside the run"
    assert any(words in line for line in summary.left_out) and about["left out"] == summary.left_out
    run = next(each for each in slices_of(events, "phases of the run") if each["name"] == "the run")
    assert words in run["args"]["left out"]


def large_run() -> History:
    history = History()
    history.feed(300)
    for at in range(0, 300, 3):
        history.transact(at, at + 1, at + 2, transactional_id="id-1")
    return history


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, most in (
        (samples, "MOST_BATCHES", 60),
        (progress, "ROWS_AT_ONCE", 100),
        (perfetto, "MOST_OPERATIONS", 40),
        (perfetto, "MOST_TRANSACTIONS", 20),
        (samples, "MOST_SAMPLED", 10),
    ):
        monkeypatch.setattr(module, name, most)


@pytest.mark.usefixtures("small_limits")
def test_a_large_run_is_sampled_and_says_what_is_left_out(tmp_path: Path) -> None:
    history = large_run()
    near_ns = history.clock - 20_000_000
    fault_s = near_ns / 1e9 + 1.0  # so that rows are near to it from this time on
    fault = FaultReport("kill-broker", "b", fault_s, fault_s, True, "", "b")
    store(tmp_path, history, metadata=RunMetadata(faults=[fault], phases=METADATA.phases))
    events, summary, _ = export(tmp_path, None)
    assert problems(events) == []
    assert any(line.endswith("batches and markers") for line in summary.left_out)
    drawn = {kind: (each.drawn, each.total) for kind, each in summary.drawn.items()}
    assert drawn["transactions"][0] <= 20 and drawn["transactions"][1] == 100
    assert 50 <= drawn["batches and markers"][0] <= 60 + 4 * 10  # and those on paths
    assert len(slices_of(events, "partitions")) == drawn["batches and markers"][0]
    assert drawn["paths of records"][0] == 10 and len(paths_of(events)) == 10
    assert all(len(path) == 5 for path in paths_of(events).values())  # each slice on a path is drawn
    rows = [row for row in RunTables(tmp_path).rows("ops", f=["txn"]) if row["call_ns"] >= near_ns]
    operations = {each.get("args", {}).get("operation") for each in slices_of(events, "processes")}
    assert rows and {row["name"] for row in rows} <= operations


@pytest.mark.usefixtures("small_limits")
def test_the_record_of_a_finding_is_drawn_in_a_large_run(tmp_path: Path) -> None:
    history = large_run()
    example = Example.from_json({"input": {"topic": "a", "partition": 0, "offset": 101}})
    verdict = Verdict(
        "r", "r", 1, Validity.INVALID.json, "", {"lost-input": AnomalyFindings(1, examples=[example])}
    )
    events = export(store(tmp_path, history), verdict)[0]
    starts = [path[0]["args"]["offset"] for path in paths_of(events).values()]
    assert 101 in starts and problems(events) == []


def parts(count: int, size: int = 7) -> Iterator[pa.Table]:
    for begin in range(0, count, size):
        yield pa.table({"time_ns": pa.array(range(begin, min(begin + size, count)), pa.int64())})


@pytest.mark.parametrize(
    ("count", "most", "near", "expected"),
    [
        (20, 100, (), 20),
        (100, 10, (), 10),
        (100, 10, ((40, 44),), 10),
        (100, 10, ((0, 99),), 10),
        (100, 0, ((0, 99),), 0),
        (0, 10, (), 0),
    ],
)
def test_a_sample_has_the_rows_near_to_a_fault_and_every_nth_of_the_others(
    count: int, most: int, near: tuple[tuple[float, float], ...], expected: int
) -> None:
    sampler = Sampler(most, Intervals(near))
    rows = sample(lambda: parts(count), "time_ns", sampler)
    times = [] if rows is None else rows["time_ns"].to_pylist()
    assert len(times) == sampler.kept and sampler.total == count
    assert expected - 1 <= len(times) <= expected
    if near == ((40, 44),):
        assert set(range(40, 45)) <= set(times) and min(times) < 40 and max(times) > 44


def test_wanted_rows_are_kept_in_any_case() -> None:
    sampler = Sampler(0)
    rows = sample(
        lambda: parts(30), "time_ns", sampler, lambda part: np.equal(part["time_ns"].to_numpy(), 12)
    )
    assert rows is not None and rows["time_ns"].to_pylist() == [12]


def test_a_time_is_near_if_it_is_in_one_of_several_intervals() -> None:
    near = Intervals([(5, 9), (0, 7), (20, 21)])
    assert near.contain(np.array([-1, 0, 8, 9, 10, 20, 22, np.nan])).tolist() == [
        *(False, True, True, True, False, True, False, False)
    ]


def test_without_broker_logs_the_tracks_of_clients_are_drawn(tmp_path: Path) -> None:
    events, summary, _ = export(store(tmp_path, one_run(), log=False))
    assert problems(events) == []
    assert any("log/batches.parquet" in note for note in summary.missing)
    assert slices_of(events, "transactional ids") and not slices_of(events, "partitions")


def test_a_run_that_was_killed_has_a_trace(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    store(tmp_path, one_run(), metadata=None)
    assert run_command_line(["export", str(tmp_path)]) == 0
    events = read_trace(tmp_path / "trace.json.gz")["traceEvents"]
    assert problems(events) == [] and f"{len(events)} events" in capfd.readouterr().out.replace(",", "")


def test_the_command_writes_a_compressed_file_and_says_what_is_left_out(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "out.json.gz"
    assert run_command_line(["export", str(folder), "--format", "perfetto", "--out", str(path)]) == 0
    assert gzip.decompress(path.read_bytes()).startswith(b'{"traceEvents":[')
    out = capfd.readouterr().out
    assert out.splitlines()[-1] == str(path) and "https://ui.perfetto.dev" in out
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--format", "svg"], 'there is no format "svg"'),
        (["--out", "no-such-folder/trace.gz"], "cannot be written"),
        (["--out", "."], "cannot be written (it is a folder)"),
        (["--out", ""], "cannot be written"),
    ],
)
def test_a_wrong_argument_ends_with_one_sentence(
    arguments: list[str],
    words: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    assert run_command_line(["export", str(folder), *arguments]) == 2
    err = capfd.readouterr().err
    assert words in err and len(err.splitlines()) == 1


def test_a_damaged_table_ends_with_one_sentence(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "history" / "ops.parquet").write_bytes(b"PAR1")
    assert run_command_line(["export", str(folder)]) == 2
    err = capfd.readouterr().err
    assert "history/ops.parquet cannot be read" in err and len(err.splitlines()) == 1
    assert not list(folder.glob("trace.json.gz*"))


@pytest.mark.parametrize("time", ["NaN", '"soon"'])
@pytest.mark.parametrize(
    ("stored_s", "words"),
    [(FAULT.start_s, "faults[0].start_s: expected a number"), (1.0, "].start_s: expected a number")],
)
def test_a_wrong_time_ends_with_one_sentence(
    stored_s: float, words: str, time: str, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = folder / "metadata.json"
    path.write_text(path.read_text().replace(f'"start_s": {stored_s}', f'"start_s": {time}'))
    assert run_command_line(["export", str(folder)]) == 2
    err = capfd.readouterr().err
    assert ("NaN is not a number of JSON" if time == "NaN" else words) in err and len(err.splitlines()) == 1


def test_a_run_without_tables_says_which_command_makes_them(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.toml").write_text(f"[run]\nwall_ms_at_zero = {WALL_MS}\n[options]\n")
    assert run_command_line(["export", str(tmp_path)]) == 2
    assert "has no tables yet" in capfd.readouterr().err


def test_the_trace_processor_of_perfetto_reads_each_slice_and_flow(folder: Path) -> None:
    processor = trace_processor()
    if processor is None:
        skip_or_fail("perfetto", "there is no trace_processor_shell on this machine")
    events = export(folder)[0]
    path = folder / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    steps = sum(event["ph"] in "tf" for event in events)
    slices = sum(event["ph"] in "Xi" for event in events)
    assert processor(path, "select count(*) from slice") == [str(slices)]
    assert processor(path, "select count(*) from flow") == [str(steps)]
    wrong = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"
    assert processor(path, wrong) == []
