"""`history.jsonl`, made from journals of a few lines."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from harness.model.pipeline import StageSpec
from harness.model.vocabulary import Outcome, Role
from harness.record.client_history import OBSERVER_PROCESS, file_crc, write_client_history
from harness.record.events import Assigned, Completed, EndInvoked, Event, Invoked, JournalBegan, Polled
from harness.record.journal import Journal

STAGE = StageSpec("txn", ("k",), writes=("k",), transforms=False)
DIRTY = StageSpec("txn", ("k",), writes=("k",), transforms=False, promised="read_uncommitted")
Line = dict[str, Any]


def begin(op: int, *micro: str | None, process: int = 0) -> Invoked:
    sends = [["k", None, 0] for key in micro if key is not None]
    return Invoked("txn", process, op, asked="commit", sends=sends, micro=micro)


def history_of(
    tmp_path: Path, *events: Event, ended: bool = True, name: str = "txn-1.0", stage: StageSpec = STAGE
) -> list[Line]:
    """Return the history of one worker whose journal has these events."""
    path = tmp_path / f"{name}.jsonl"
    journal = Journal(path, 0, JournalBegan(name, role="worker", stage="txn", process=0))
    for event in events:
        journal.write(event)
    if ended:
        journal.close()
    write_client_history([path], [stage], tmp_path / "history.jsonl")
    return lines(tmp_path)


def lines(tmp_path: Path) -> list[Line]:
    return [orjson.loads(line) for line in (tmp_path / "history.jsonl").read_bytes().splitlines()]


def summary(history: Sequence[Line]) -> list[tuple[object, ...]]:
    return [(line["process"], line["type"], line["f"], line["value"]) for line in history]


def test_a_transaction_has_its_sends_and_polls_in_their_order(tmp_path: Path):
    history = history_of(
        tmp_path,
        begin(0, "k/1", None, "k/2"),
        Polled(0, 1, 5, {"k/3": [[7, "other:0:0"]]}, txn=0, at=1),
        EndInvoked("commit", 0, [(1, 4), (2, 9)]),
        Completed(Outcome.OK, "txn", 0, 0),
    )
    assert summary(history) == [
        (0, "invoke", "txn", [["send", "k/1", "txn-1.0:0:0"], ["poll"], ["send", "k/2", "txn-1.0:0:1"]]),
        (
            0,
            "ok",
            "txn",
            [
                ["send", "k/1", [4, "txn-1.0:0:0"]],
                ["poll", {"k/3": [[7, "other:0:0"]]}],
                ["send", "k/2", [9, "txn-1.0:0:1"]],
            ],
        ),
    ]
    assert [line["index"] for line in history] == [0, 1]


def test_an_unknown_offset_is_left_out(tmp_path: Path):
    history = history_of(
        tmp_path,
        begin(0, "k/1", "k/2", "k/3"),
        Completed(Outcome.INFO, "txn", 0, 0, acks=[None, (2, None), (3, 5)], error="_TIMED_OUT"),
    )
    assert history[-1]["value"] == [
        ["send", "k/1", "txn-1.0:0:0"],
        ["send", "k/2", "txn-1.0:0:1"],
        ["send", "k/3", [5, "txn-1.0:0:2"]],
    ]
    assert history[-1]["error"] == "_TIMED_OUT"


def test_the_open_transaction_of_a_killed_worker_is_info_and_the_worker_crashes(tmp_path: Path):
    history = history_of(tmp_path, begin(0, "k/1"), ended=False)
    assert summary(history)[1:] == [
        (0, "info", "txn", [["send", "k/1", "txn-1.0:0:0"]]),
        (0, "invoke", "crash", None),
        (0, "info", "crash", None),
    ]


def test_after_an_info_the_new_process_has_its_own_assignment(tmp_path: Path):
    history = history_of(
        tmp_path,
        Assigned(0, True, ["k/1", "k/2"], [0, 0]),
        Assigned(0, False, ["k/1"]),
        begin(0, None),
        Completed(Outcome.INFO, "txn", 0, 0),
        Assigned(1000, True, ["k/2"], [3]),
        begin(1, None, process=1000),
        Completed(Outcome.FAIL, "txn", 1000, 1),
    )
    assert [(line["process"], line["value"]) for line in history if line["f"] == "assign"][::2] == [
        (0, ["k/1", "k/2"]),
        (0, ["k/2"]),
        (1000, ["k/2"]),
    ]
    assert summary(history)[-1] == (1000, "fail", "txn", [["poll"]])


def test_a_poll_outside_a_transaction_is_an_operation_that_begins_with_its_call(tmp_path: Path):
    history = history_of(tmp_path, Polled(0, 0, 3, {"k/1": [[0, "x:0:0"]]}))
    assert summary(history) == [
        (0, "invoke", "poll", [["poll"]]),
        (0, "ok", "poll", [["poll", {"k/1": [[0, "x:0:0"]]}]]),
    ]
    assert history[0]["time"] <= history[1]["time"]


def test_the_isolation_is_written_if_the_stage_does_not_promise_read_committed(tmp_path: Path):
    history = history_of(tmp_path, begin(0, None), Completed(Outcome.OK, "txn", 0, 0), stage=DIRTY)
    assert {line["isolation"] for line in history} == {"read_uncommitted"}


def test_journals_and_faults_are_merged_by_time(tmp_path: Path):
    heads = {
        "txn-1.0": JournalBegan("txn-1.0", role="worker", stage="txn", process=0),
        "observer-1": JournalBegan("observer-1", role=Role.OBSERVER.value),
        "nemesis": JournalBegan("nemesis", role="nemesis"),
    }
    journals = {name: Journal(tmp_path / f"{name}.jsonl", 0, head) for name, head in heads.items()}
    journals["txn-1.0"].write(begin(0, "k/1"))
    journals["nemesis"].write(Invoked("kill-worker", -1, 0, target="worker:txn/txn-1"))
    journals["txn-1.0"].write(Completed(Outcome.OK, "txn", 0, 0, acks=[(1, 0)]))
    call = journals["observer-1"].now_ns()
    journals["observer-1"].write(Polled(0, 0, call, {"k/1": [[0, "txn-1.0:0:0"]]}))
    for journal in journals.values():
        journal.close()
    write_client_history([tmp_path / f"{name}.jsonl" for name in heads], [STAGE], tmp_path / "history.jsonl")
    history = lines(tmp_path)
    assert [(line["process"], line["type"]) for line in history] == [
        (0, "invoke"),
        ("nemesis", "info"),
        (0, "ok"),
        (OBSERVER_PROCESS, "invoke"),
        (OBSERVER_PROCESS, "ok"),
    ]
    assert [line["time"] for line in history] == sorted(line["time"] for line in history)
    before = file_crc(tmp_path / "history.jsonl")
    (tmp_path / "history.jsonl").write_bytes(b"")
    assert file_crc(tmp_path / "history.jsonl") != before


def test_a_transaction_whose_completion_is_missing_is_info(tmp_path: Path):
    history = history_of(tmp_path, begin(0, "k/1"), begin(1, None), Completed(Outcome.OK, "txn", 0, 1))
    assert [(line["type"], line["f"]) for line in history] == [
        ("invoke", "txn"),
        ("info", "txn"),
        ("invoke", "txn"),
        ("ok", "txn"),
    ]
