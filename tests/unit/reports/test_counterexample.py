"""The counter-examples of small runs: who sent what to whom, in order, and the cause in words."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from harness.common.wording import REDACTED
from harness.record.protocol_journal import JOURNAL, ProxyJournal, RequestRecord, RuleEvent
from harness.record.table_reader import RunTables
from harness.results.example import Example
from harness.results.run_metadata import ProgramClient, RunMetadata
from harness.results.verdict import AnomalyFindings, FaultReport
from reports.html.stories import report_stories
from reports.story import diagram as diagram_module
from reports.story.by_journals import of_id
from reports.story.counterexamples import Counterexample, counterexamples
from reports.story.model import Diagram, Kind
from reports.story.run import Story
from tests.support.changed_requests import ZERO_NS, at, end_txn, write_held_requests
from tests.support.diagrams import DIAGRAMS, first_missing
from tests.support.histories import WALL_MS, History
from tests.support.stored_tables import write_store
from workloads.defects import DEFECTS

PAUSE = FaultReport(
    "pause-worker", "worker w", 0.0, 0.0, True, "stopped", "worker w was paused and replaced", {"worker": "w"}
)
PROGRAM = """
[run]
wall_ms_at_zero = 1000000.0

[[workload.stages]]
name = "s"
writes = ["x", "y"]
journaled = false

[workload.stages.transactional_ids]
"""


def stories_of(
    folder: Path,
    history: History,
    *examples: dict[str, Any],
    faults: Sequence[FaultReport] = (),
    plan: str = "[run]\n",
    clients: dict[str, ProgramClient] | None = None,
    held: Sequence[str] = (),
    sent_s: float = 0.0,
    keep_assignments: bool = False,
    request: Mapping[str, Any] | None = None,
) -> list[Counterexample]:
    history.alter("assignments", lambda row: row if keep_assignments else None)
    write_store(folder, [(1, history)], log=True)
    RunMetadata(faults=faults, program_clients=clients or {}).save(folder / "metadata.json")
    (folder / "run.toml").write_text(plan)
    if held:
        write_held_requests(folder, *held, sent_s=sent_s, **(request or {}))
    t = RunTables(folder, WALL_MS)
    findings = AnomalyFindings(len(examples), examples=[Example.from_json(example) for example in examples])
    return counterexamples(Story(t, faults), [("reprocessed-input", findings)])


def record(offset: int, value: str | None, topic: str = "x") -> dict[str, Any]:
    return {"topic": topic, "partition": 0, "offset": offset, "value": value}


def messages(story: Counterexample) -> list[str]:
    return [str(message) for message in story.diagram.messages]


def bad(story: Counterexample) -> list[str]:
    """Return the messages that a correct run does not have."""
    return [str(message) for message in story.diagram.messages if message.bad]


def twice() -> tuple[History, dict[str, Any]]:
    """Two workers process one input, and both commit."""
    history = History()
    history.feed(1)
    history.transact(0, worker="w", pid=1, transactional_id="id-1")
    history.transact(0, worker="v", pid=2, transactional_id="id-2")
    example = {
        "input": {"topic": "a", "partition": 0, "offset": 0},
        "records": [record(0, "w:0:0"), record(2, "v:0:0")],
    }
    return history, example


def test_the_messages_of_two_transactions_are_in_order_of_time(tmp_path: Path) -> None:
    (story,) = stories_of(tmp_path, *twice())
    assert [each.name for each in story.diagram.participants] == [
        *("a/0", "w", "v", "transaction coordinators", "group g", "x/0", "z"),
    ]
    assert messages(story) == [
        "a/0 -> w: input @0",
        "w: begins a transaction w:0",
        "w -> transaction coordinators: EndTxn(commit)",
        "w -> x/0: record @0",
        "transaction coordinators -> w: success",
        "w -> group g: offset 1 of a/0",
        "transaction coordinators: PrepareCommit of id-1, producer 1 epoch 0",
        "transaction coordinators -> x/0: commit marker @1",
        "a/0 -> v: input @0",
        "v: begins a transaction v:0",
        "v -> transaction coordinators: EndTxn(commit)",
        "v -> x/0: record @2",
        "transaction coordinators -> v: success",
        "v -> group g: offset 1 of a/0",
        "transaction coordinators: PrepareCommit of id-2, producer 2 epoch 0",
        "transaction coordinators -> x/0: commit marker @3",
        "x/0 -> z: records @0, 2",
    ]
    assert story.cause.sentences == ["The cause is not known: no fault came before it."]


def test_an_epoch_that_a_commit_has_raised_is_explained(tmp_path: Path) -> None:
    history, example = twice()
    raised = {"PrepareCommit", "CompleteCommit"}  # transaction.version 2
    history.alter(
        "transactions",
        lambda row: row | {"epoch": 1} if row["producer_id"] == 2 and row["state"] in raised else row,
    )
    (story,) = stories_of(tmp_path, history, example)
    states = [text for text in messages(story) if "PrepareCommit" in text]
    assert states == [
        "transaction coordinators: PrepareCommit of id-1, producer 1 epoch 0",
        "transaction coordinators: PrepareCommit of id-2, producer 2 epoch 1 (one more, KIP-890)",
    ]


def test_a_partition_that_moves_is_shown(tmp_path: Path) -> None:
    history, example = twice()
    history.assign("v")
    (story,) = stories_of(tmp_path, history, example, keep_assignments=True)
    assert "group g -> v: gains a/0" in messages(story)


def test_the_cause_of_a_zombie_names_the_process_and_what_did_not_stop_it(tmp_path: Path) -> None:
    history, example = twice()
    paused = structs.replace(PAUSE, start_s=0.004, end_s=0.02)
    (story,) = stories_of(tmp_path, history, example, faults=[paused])
    assert story.cause.fault == 1 and story.cause.known
    assert (
        story.cause.sentences[0]
        == "w was paused at 0.004 s in w:0, with the transactional id id-1, and resumed at 0.020 s."
    )
    assert story.cause.sentences[1].startswith("Meanwhile v processed the same input")
    assert any("v used id-2." in sentence for sentence in story.cause.sentences)
    assert "w: was paused and replaced" in messages(story) and "w: resumed" in messages(story)
    assert story.cause.summary == "worker w was paused and replaced"


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (structs.replace(PAUSE, acted=False), "a fault that did not act"),
        (structs.replace(PAUSE, details={"worker": "u"}), "another process"),
        (structs.replace(PAUSE, start_s=5.0, end_s=6.0), "a fault after the finding"),
    ],
)
def test_a_pause_that_did_not_strike_the_finding_is_not_its_cause(
    fault: FaultReport, why: str, tmp_path: Path
) -> None:
    history, example = twice()
    (story,) = stories_of(tmp_path, history, example, faults=[fault])
    assert not story.cause.known, why
    assert story.cause.sentences[0].startswith("The cause is not known"), why


def test_a_zombie_of_a_program_is_named_by_its_requests(tmp_path: Path) -> None:
    """Without journals the instance, its transaction and the offsets come from the logs and the protocol proxy."""
    history, example = twice()
    history.alter("stages", lambda row: row | {"journaled": False})
    for row in example["records"]:
        row["value"] = None
    clients = {"bill-3.0": ProgramClient(["id-1"], True), "bill-1.0": ProgramClient(["id-2"], True)}
    fault = structs.replace(
        PAUSE, fault="pause-instance", start_s=0.005, end_s=0.02, details={"worker": "bill-3.0"}
    )
    (story,) = stories_of(tmp_path, history, example, faults=[fault], plan=PROGRAM, clients=clients)
    assert messages(story)[:2] == ["a/0 -> bill-3.0: input @0", "bill-3.0: begins a transaction"]
    assert "bill-3.0 -> x/0: record @0" in messages(story)
    assert "bill-1.0 -> group g: offset 1 of a/0" in messages(story)
    assert "bill-3.0: worker w was paused and replaced" in messages(story)
    assert any("without the generation" in sentence for sentence in story.cause.sentences)


def test_without_a_protocol_proxy_the_generation_is_not_known(tmp_path: Path) -> None:
    history, example = twice()
    history.alter("stages", lambda row: row | {"journaled": False})
    plan = PROGRAM + 'bill-3 = "id-1"\nbill-1 = "id-2"\n'
    fault = structs.replace(
        PAUSE, fault="pause-instance", start_s=0.005, end_s=0.02, details={"worker": "bill-3.0"}
    )
    (story,) = stories_of(tmp_path, history, example, faults=[fault], plan=plan)
    assert messages(story)[0] == "a/0 -> bill-3: input @0"
    assert (
        story.cause.sentences[-1]
        == "Whether bill-3 sent its offsets with the generation of its consumer is not known."
    )


def test_a_late_request_is_the_cause_if_it_arrived_in_the_next_transaction(tmp_path: Path) -> None:
    history = History()
    history.feed(1)
    history.clock = 1_000_000_000
    history.transact(0, fate="abort", transactional_id="id-1", return_ns=3_000_000_000)
    (story,) = stories_of(tmp_path, history, {"record": record(0, "w:0:0")}, held=["id-1"], sent_s=0.5)
    assert story.cause.key == "late EndTxn by late-end-txn"
    assert story.cause.sentences == [
        "EndTxn(abort) 41 of id-1 belongs to an earlier transaction than w:0.",
        "It was held by late-end-txn for 1.2 s, and arrived at 1.700 s in w:0: the broker accepted it.",
    ]
    drawn = messages(story)
    assert drawn.index("w -> protocol proxy: EndTxn(abort) 41") < drawn.index("w: begins a transaction w:0")
    assert "protocol proxy -> coordinator of id-1: late: EndTxn(abort) 41" in bad(story)
    assert story.cause.summary == "EndTxn requests arrived late"
    assert "coordinator of id-1 -> x/0: abort marker @1" in drawn


def next_transaction_of_a_held_request(folder: Path, *passed: RequestRecord) -> Story:
    """Return the story of a transaction from 1 to 3 s in which a request of 0.5 s arrived; `passed`: other ones."""
    history = History()
    history.feed(1)
    history.clock = 1_000_000_000
    history.transact(0, fate="abort", transactional_id="id-1", return_ns=3_000_000_000)
    journal = ProxyJournal(folder / JOURNAL)
    for request in passed:
        journal.write_request(request)
    journal.flush()
    (story,) = stories_of(folder, history, {"record": record(0, "w:0:0")}, held=["id-1"], sent_s=0.5)
    return story


def end_txn_at(at_s: float, asked: str = "abort") -> RequestRecord:
    return end_txn(
        *(9, at_s),
        transactional_id="id-1",
        connection=2,
        asked=asked,
        delivered_ns=at(at_s),
        answered_ns=at(at_s + 0.01),
        returned_ns=at(at_s + 0.01),
    )


def test_the_retry_of_a_held_request_is_drawn_and_a_response_ends_where_its_client_is_gone(
    tmp_path: Path,
) -> None:
    story = next_transaction_of_a_held_request(tmp_path, end_txn_at(0.6))
    assert story.cause.sentences[2] == (
        "Its client had got no answer, and had sent the same again: EndTxn(abort) 49 succeeded at 0.610 s."
    )
    drawn = messages(story)
    assert drawn[:4] == [
        "w -> protocol proxy: EndTxn(abort) 41",
        "protocol proxy: held by late-end-txn",
        "w -> coordinator of id-1: retry: EndTxn(abort) 49, on another connection",
        "coordinator of id-1 -> w: success",
    ]
    late = drawn.index("protocol proxy -> coordinator of id-1: late: EndTxn(abort) 41")
    assert drawn.index("coordinator of id-1 -> protocol proxy: success; the client is gone") > late


def test_a_request_that_asks_for_something_else_is_no_retry(tmp_path: Path) -> None:
    story = next_transaction_of_a_held_request(tmp_path, end_txn_at(0.6, asked="commit"))
    assert not any("retry" in message for message in messages(story))
    assert not any("again" in sentence for sentence in story.cause.sentences)


def test_the_request_that_ended_a_transaction_is_drawn_as_the_proxy_saw_it(tmp_path: Path) -> None:
    begin = replace(end_txn_at(1.1, asked="commit"), number=8, api="AddPartitionsToTxn")
    drawn = messages(next_transaction_of_a_held_request(tmp_path, begin, end_txn_at(2.9)))
    assert "w -> coordinator of id-1: EndTxn(abort) 49" in drawn
    assert "w -> coordinator of id-1: EndTxn(abort)" not in drawn


def test_all_records_of_a_transaction_are_drawn_before_the_markers_above_them(tmp_path: Path) -> None:
    history = History()
    history.feed(9)
    history.transact(*range(9), transactional_id="id-1", return_ns=3_000_000_000)
    late = {"max_timestamp_ms": int(WALL_MS) + 9_000}  # a wrong clock
    history.alter("batches", lambda row: row if row["control"] else row | late)
    example = {"records": [record(offset, f"w:0:{offset}") for offset in range(9)]}
    (story,) = stories_of(tmp_path, history, example)
    kinds = [message.kind for message in story.diagram.messages]
    records = [n for n, kind in enumerate(kinds) if kind is Kind.RECORD]
    assert records and max(records) < kinds.index(Kind.MARKER)


def test_a_state_has_the_time_of_its_decision_as_in_a_trace(tmp_path: Path) -> None:
    history, example = twice()

    def decided_early(row: dict[str, Any]) -> dict[str, Any]:
        return row | {"update_ms": row["update_ms"] - 1} if row["state"] == "PrepareCommit" else row

    history.alter("transactions", decided_early)
    (story,) = stories_of(tmp_path, history, example)
    drawn = [message.at_ns for message in story.diagram.messages if message.kind is Kind.STATE]
    t = RunTables(tmp_path, WALL_MS)
    steps = [
        step for own in ("id-1", "id-2") for step in of_id(Story(t), own) if "PrepareCommit" in step.words
    ]
    assert len(drawn) == 2 and drawn == [step.at_ns for step in steps]


def test_offsets_of_a_late_request_are_not_sent_by_the_process_at_that_time(tmp_path: Path) -> None:
    history, example = twice()
    stored = {
        "timestamp_ms": int(WALL_MS) + 1_205
    }  # the late request is delivered at 1.2 s and answered at 1.206 s
    history.alter("offsets", lambda row: row | stored)
    for row in history.rows["ops"].values() if isinstance(history.rows["ops"], dict) else history.rows["ops"]:
        row["return_ns"] = 3_000_000_000
    commit = {"api": "TxnOffsetCommit", "asked": None, "groups": ("g",)}
    (story,) = stories_of(tmp_path, history, example, held=["id-1"], sent_s=0.0, request=commit)
    assert "group g: stores offset 1 of a/0" in messages(story)
    assert "w -> group g: offset 1 of a/0" not in messages(story)


def test_an_input_is_drawn_only_to_the_transactions_that_claim_it(tmp_path: Path) -> None:
    history = History()
    history.feed(2)
    ops = [history.transact(n, transactional_id="id-1") for n in range(2)]
    example = {
        "input": {"topic": "a", "partition": 0, "offset": 1},
        "operations": [
            {
                "op": op.op,
                "name": f"w:{n}",
                "journal": "w",
                "f": "txn",
                "stage": "s",
                "transactional_id": "id-1",
            }
            for n, op in enumerate(ops)
        ],
    }
    (story,) = stories_of(tmp_path, history, example)
    assert messages(story).count("a/0 -> w: input @1") == 1


def test_a_request_that_arrived_before_or_after_the_transaction_is_not_its_cause(tmp_path: Path) -> None:
    history = History()
    history.feed(1)
    history.clock = 1_000_000_000
    history.transact(0, fate="abort", transactional_id="id-1")  # it ends before the request arrives at 1.7 s
    (story,) = stories_of(tmp_path, history, {"record": record(0, "w:0:0")}, held=["id-1"], sent_s=0.5)
    assert not story.cause.known


def test_a_record_without_a_marker_is_open_and_the_final_reader_stops_before_it(tmp_path: Path) -> None:
    history = History()
    history.feed(1)
    history.transact(0, outcome="info", fate="open", transactional_id="id-1")
    (story,) = stories_of(tmp_path, history, {"record": record(0, "w:0:0")})
    assert messages(story)[-1] == "x/0: no marker above @0: open at the end"
    assert "w: gets no response, and ends" in messages(story)
    assert not any(message.kind is Kind.UNREAD for message in story.diagram.messages)


def test_a_lost_record_is_one_that_the_final_reader_passed(tmp_path: Path) -> None:
    history = History()
    history.feed(1)
    history.transact(0, fates={"x": "abort"}, transactional_id="id-1")
    (story,) = stories_of(tmp_path, history, {"record": record(0, "w:0:0")})
    assert messages(story)[-1] == "x/0 -> z: reads on to @3, without @0"
    assert bad(story) == ["coordinator of id-1 -> x/0: abort marker @1", messages(story)[-1]]
    assert story.diagram.messages[-1].at_ns == history.rows["ops"][-1]["return_ns"]


def test_findings_with_one_cause_are_one_story_and_the_smallest_is_drawn(tmp_path: Path) -> None:
    history, example = twice()
    alone = {"record": record(0, "w:0:0")}
    paused = structs.replace(PAUSE, start_s=0.004, end_s=0.02)
    (story,) = stories_of(tmp_path, history, alone, example, example, faults=[paused])
    assert story.counts == {"reprocessed-input": 3}
    assert story.shown.number == 2  # two processes meet in it


def test_a_finding_without_records_is_told_without_a_diagram(tmp_path: Path) -> None:
    (story,) = stories_of(tmp_path, History(), {"group": "g", "still_s": 40.0})
    assert story.diagram.messages == () and not story.cause.known


def test_a_long_diagram_keeps_the_most_telling_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagram_module, "MOST_MESSAGES", 14)
    (story,) = stories_of(tmp_path, *twice())
    assert len(story.diagram.messages) == 14 and story.diagram.left_out == 3
    kinds = {message.kind for message in story.diagram.messages}
    assert Kind.STATE not in kinds and {Kind.INPUT, Kind.RECORD, Kind.MARKER, Kind.OFFSETS} <= kinds


def test_a_planted_mistake_is_said_first(tmp_path: Path) -> None:
    (story,) = stories_of(tmp_path, *twice(), plan='[run]\n[options]\ndefect = "no-rewind"\n')
    assert story.cause.sentences == ["The mistake was planted: --defect no-rewind."]


def test_offsets_that_no_transaction_committed_are_shown_and_are_the_cause(tmp_path: Path) -> None:
    history = History()
    history.feed(1)
    op = history.transact(0, fate="abort", outcome="fail", offsets_fate="", transactional_id="id-1")
    history.commit_offset(1)
    example = {
        "input": {"topic": "a", "partition": 0, "offset": 0},
        "operations": [{"op": op.op, "name": "w:0", "journal": "w", "f": "txn", "transactional_id": "id-1"}],
        "passed_by": {"topic": "__consumer_offsets", "partition": 0, "offset": 0},
    }
    (story,) = stories_of(tmp_path, history, example)
    assert "group g: stores offset 1 of a/0, outside any transaction" in messages(story)
    assert "group g: stores offset 1 of a/0, outside any transaction" in bad(story)
    assert story.cause.key == "offsets outside"


def test_offsets_in_a_transaction_are_not_the_cause(tmp_path: Path) -> None:
    (story,) = stories_of(tmp_path, *twice())
    assert story.cause.key == "not known"


def test_a_worker_that_was_killed_in_its_transaction_is_the_cause(tmp_path: Path) -> None:
    history = History()
    history.feed(1)
    history.transact(0, worker="w", outcome="info", fate="commit", transactional_id="id-1", return_ns=None)
    history.transact(0, worker="v", pid=2, transactional_id="id-2")
    killed = structs.replace(
        PAUSE, fault="kill-worker", start_s=0.005, end_s=0.005, struck="worker w was killed"
    )
    example = {
        "input": {"topic": "a", "partition": 0, "offset": 0},
        "records": [record(0, "w:0:0"), record(2, "v:0:0")],
    }
    (story,) = stories_of(tmp_path, history, example, faults=[killed])
    assert story.cause.sentences[0] == "w was killed at 0.005 s, in w:0."
    assert story.cause.sentences[1].startswith("Then v processed the same input")
    assert "w: was killed" in messages(story) and "w: restarted" in messages(story)
    assert "w: gets no response, and ends" not in messages(story)


def without_marker(history: History | None = None, **first: int) -> History:
    """The first transaction of a producer is completed without a marker in `x`; its second one is aborted there.

    `first`: other columns of the first operation.
    """
    history = history or History()
    history.feed(2)
    history.transact(
        0, fate="open", offsets_fate="commit", state="CompleteCommit", transactional_id="id-1", **first
    )
    history.clock += 50_000_000
    history.transact(1, outcome="fail", transactional_id="id-1")
    later = {"max_timestamp_ms": int(WALL_MS) + 90}  # a marker is written after its transaction has begun
    history.alter(
        "batches", lambda row: row | later if row.get("marker") == "abort" and row["base_offset"] else row
    )
    return history


def test_a_completed_transaction_without_a_marker_is_the_cause(tmp_path: Path) -> None:
    killed = FaultReport(
        "kill-broker",
        "broker 1",
        0.001,
        0.04,
        True,
        "it was killed",
        "broker 1 was killed",
        {"broker": "1", "worker": "w"},  # when the worker was at a step
    )
    (story,) = stories_of(tmp_path, without_marker(), {"record": record(0, "w:0:0")}, faults=[killed])
    assert story.cause.key == "no marker" and story.cause.fault == 1
    assert "x/0: the marker is missing" in bad(story)
    assert "everybody: broker 1 was killed" in messages(story)
    assert "coordinator of id-1 -> x/0: abort marker @2 of a later transaction" in bad(story)
    assert story.cause.sentences[0].endswith("and wrote no marker for it to x/0.")
    assert story.cause.sentences[-1].startswith("At that time, broker 1 was killed")


def test_a_marker_of_the_transaction_before_that_came_late_is_not_its_marker(tmp_path: Path) -> None:
    history = History()
    history.append_marker("x", 1, "abort", ms=int(WALL_MS) + 1)
    (story,) = stories_of(tmp_path, without_marker(history, call_ns=0), {"record": record(1, "w:0:0")})
    assert story.cause.key == "no marker"


def test_a_transaction_whose_marker_came_in_time_lacks_none(tmp_path: Path) -> None:
    history = History()
    history.feed(2)
    history.transact(0, transactional_id="id-1")
    history.clock += 50_000_000
    history.transact(1, outcome="fail", transactional_id="id-1")
    (story,) = stories_of(tmp_path, history, {"record": record(0, "w:0:0")})
    assert not story.cause.known


def test_a_finding_of_the_same_transaction_has_the_same_cause(tmp_path: Path) -> None:
    of_the_input = {
        "input": {"topic": "a", "partition": 0, "offset": 0},
        "operations": [{"op": 2, "name": "w:0", "journal": "w", "f": "txn", "call_ns": 5_000_000}],
    }
    (story,) = stories_of(tmp_path, without_marker(), {"record": record(0, "w:0:0")}, of_the_input)
    assert story.cause.key == "no marker" and story.counts == {"reprocessed-input": 2}


def test_the_messages_of_each_defect_are_stated() -> None:
    assert DIAGRAMS.keys() == DEFECTS.keys()


def test_a_message_that_is_missing_or_comes_too_early_is_found() -> None:
    assert first_missing(["a: x", "b: y", "c: z"], ("x", "z")) is None
    assert first_missing(["a: x", "c: z"], ("x", "y", "z")) == "y"
    assert first_missing(["c: z", "a: x"], ("x", "z")) == "z"


def test_a_late_request_that_the_broker_refused_is_not_the_cause(tmp_path: Path) -> None:
    history = History()
    history.feed(1)
    history.clock = 1_000_000_000
    history.transact(0, fate="abort", transactional_id="id-1", return_ns=3_000_000_000)
    refused = {"errors": ("INVALID_PRODUCER_EPOCH",)}
    example = {"record": record(0, "w:0:0")}
    (story,) = stories_of(tmp_path, history, example, held=["id-1"], sent_s=0.5, request=refused)
    assert not story.cause.key.startswith("late EndTxn")


@pytest.mark.parametrize(("decided_s", "late"), [(1.2, True), (2.5, False)])
def test_records_are_late_only_if_their_transaction_was_already_being_ended(
    decided_s: float, late: bool, tmp_path: Path
) -> None:
    """The Produce request is sent at 1.1 s, in its transaction, and delivered at 2.3 s."""
    history = History()
    history.feed(1)
    history.clock = 1_000_000_000
    history.transact(0, fate="abort", transactional_id="id-1", return_ns=3_000_000_000)
    decided = {"update_ms": int(WALL_MS + decided_s * 1000)}
    history.alter("transactions", lambda row: row | decided if row["state"].startswith("Prepare") else row)
    produce = {"api": "Produce", "asked": None}
    example = {"record": record(0, "w:0:0")}
    (story,) = stories_of(tmp_path, history, example, held=["id-1"], sent_s=1.1, request=produce)
    assert story.cause.key.startswith("late Produce") is late


def test_records_behind_their_marker_do_not_lack_one(tmp_path: Path) -> None:
    history = without_marker()
    first = {"marker": "commit", "pid": 1, "epoch": 0, "ms": int(WALL_MS) + 5}
    history.entries["x"].insert(0, first)
    (story,) = stories_of(tmp_path, history, {"record": record(1, "w:0:0")})
    assert story.cause.key != "no marker"


def test_a_generation_that_no_request_shows_is_not_known(tmp_path: Path) -> None:
    history, example = twice()
    history.alter("stages", lambda row: row | {"journaled": False})
    clients = {"bill-3.0": ProgramClient(["id-1"], None), "bill-1.0": ProgramClient(["id-2"], None)}
    fault = structs.replace(
        PAUSE, fault="pause-instance", start_s=0.005, end_s=0.02, details={"worker": "bill-3.0"}
    )
    (story,) = stories_of(tmp_path, history, example, faults=[fault], plan=PROGRAM, clients=clients)
    assert (
        story.cause.sentences[-1]
        == "Whether bill-3.0 sent its offsets with the generation of its consumer is not known."
    )


def test_a_process_that_was_killed_sends_nothing_afterwards(tmp_path: Path) -> None:
    """Another process uses the transactional id after the death, and a rule holds its request at 1.0 s."""
    history = History()
    history.feed(1)
    history.transact(0, worker="w", outcome="info", fate="commit", transactional_id="id-1", return_ns=None)
    history.clock = 900_000_000
    history.transact(0, worker="v", transactional_id="id-1", return_ns=3_000_000_000)
    example = {
        "input": {"topic": "a", "partition": 0, "offset": 0},
        "records": [record(0, "w:0:0"), record(2, "v:0:0")],
    }
    killed = structs.replace(PAUSE, fault="kill-worker", start_s=0.5, end_s=0.8, struck="worker w was killed")
    (story,) = stories_of(tmp_path, history, example, faults=[killed], held=["id-1"], sent_s=1.0)
    assert "v -> protocol proxy: EndTxn(abort) 41" in messages(story)
    killed_at = messages(story).index("w: was killed")
    assert not any(message.startswith("w ->") for message in messages(story)[killed_at:])
    assert messages(story).count("v -> group g: offset 1 of a/0") == 1


def test_a_request_after_a_death_belongs_to_no_attempt_of_the_dead_process(tmp_path: Path) -> None:
    history = History()
    history.feed(2)
    history.transact(0, worker="w", outcome="info", fate="commit", transactional_id="id-1", return_ns=None)
    history.clock = 900_000_000
    history.transact(1, worker="v", transactional_id="id-1", return_ns=3_000_000_000)
    (story,) = stories_of(tmp_path, history, {"record": record(0, "w:0:0")}, held=["id-1"], sent_s=1.0)
    assert not any("protocol proxy" in message for message in messages(story))


def test_a_late_request_names_its_transaction_and_says_what_it_did_to_the_other_one(tmp_path: Path) -> None:
    history = History()
    history.feed(2)
    history.transact(0, fate="abort", outcome="fail", transactional_id="id-1")
    history.clock = 1_000_000_000
    history.transact(1, fate="abort", transactional_id="id-1", return_ns=3_000_000_000)
    history.log_state(1, "Ongoing", ["x"])
    at_ms = iter([1_100, 1_701, 1_702, 1_800])

    def later(row: dict[str, Any]) -> dict[str, Any]:
        return row | {"update_ms": int(WALL_MS) + next(at_ms)} if row["log_offset"] > 2 else row

    history.alter("transactions", later)
    (story,) = stories_of(tmp_path, history, {"record": record(2, "w:1:0")}, held=["id-1"], sent_s=0.5)
    assert story.cause.sentences[0] == (
        "EndTxn(abort) 41 of id-1 belongs to w:0, an earlier transaction than w:1."
    )
    assert story.cause.sentences[1].endswith(
        "in w:1: the coordinator aborted what w:1 had sent until then. The rest of w:1 was another transaction for it."
    )


def test_a_zombie_may_do_again_what_others_did_while_it_was_paused(tmp_path: Path) -> None:
    """`v` processes the input in the pause of `w`, and `w` processes it after the pause."""
    history = History()
    history.feed(1)
    history.transact(0, worker="v", pid=2, transactional_id="id-2")
    history.clock = 1_000_000_000
    history.transact(0, worker="w", transactional_id="id-1")
    example = {
        "input": {"topic": "a", "partition": 0, "offset": 0},
        "records": [record(0, "v:0:0"), record(2, "w:0:0")],
    }
    (story,) = stories_of(tmp_path / "in", history, example, faults=[structs.replace(PAUSE, end_s=0.5)])
    assert story.cause.key == "zombie w"
    assert story.cause.sentences[0] == "w was paused at 0.000 s, and resumed at 0.500 s."


def test_a_record_that_was_aborted_on_purpose_and_was_not_read_is_not_bad(tmp_path: Path) -> None:
    history = History()
    history.feed(1)
    history.transact(0, outcome="fail", transactional_id="id-1")
    (story,) = stories_of(tmp_path, history, {"record": record(0, "w:0:0")})
    assert "x/0 -> z: reads on to @3, without @0" in messages(story) and not bad(story)


def test_the_second_commit_of_an_input_is_bad(tmp_path: Path) -> None:
    history, example = twice()
    (story,) = stories_of(tmp_path, history, example)
    assert bad(story) == ["transaction coordinators -> x/0: commit marker @3"]


def test_a_read_before_the_commit_is_bad(tmp_path: Path) -> None:
    history = History()
    history.feed(1)
    history.transact(0, transactional_id="id-1")
    history.observe("x", 0)
    late = {"max_timestamp_ms": int(WALL_MS) + 9_000}
    history.alter("batches", lambda row: row | late if row["control"] else row)
    (story,) = stories_of(tmp_path, history, {"record": record(0, "w:0:0")})
    assert "x/0 -> o: record @0" in bad(story)


def test_the_finding_of_the_first_anomaly_is_drawn(tmp_path: Path) -> None:
    history = History()
    history.feed(3)
    history.transact(0, 1, transactional_id="id-1")
    history.transact(2, pid=2, transactional_id="id-2")
    write_store(tmp_path, [(1, history)], log=True)
    RunMetadata().save(tmp_path / "metadata.json")
    (tmp_path / "run.toml").write_text("[run]\n[options]\ndefect = 'no-rewind'\n")
    t = RunTables(tmp_path, WALL_MS)
    larger = {"records": [record(0, "w:0:0"), record(1, "w:0:1")]}
    found = [
        (name, AnomalyFindings(1, examples=[Example.from_json(example)]))
        for name, example in (("aborted-read", larger), ("dirty-read", {"record": record(3, "w:1:0")}))
    ]
    (story,) = counterexamples(Story(t, ()), found)
    assert story.shown.anomaly == "aborted-read"


def test_an_error_before_the_commit_was_requested_is_not_the_coordinators(tmp_path: Path) -> None:
    history = History()
    history.feed(1)
    error = (
        "UNKNOWN_MEMBER_ID (abortable): Failed to commit offsets to transaction on broker 127.0.0.1:29068/3"
    )
    history.transact(0, outcome="fail", transactional_id="id-1", asked="commit", error=error)
    (story,) = stories_of(tmp_path, history, {"record": record(0, "w:0:0")})
    assert "w: failure: UNKNOWN_MEMBER_ID" in messages(story)


def test_a_committed_offset_without_a_marker_is_drawn_with_its_transaction(tmp_path: Path) -> None:
    history = History()
    history.feed(1)
    history.transact(0, offsets_fate="open", state="CompleteCommit", transactional_id="id-1")
    example = {"record": {"topic": "__consumer_offsets", "partition": 0, "offset": 0}}
    (story,) = stories_of(tmp_path, history, example)
    assert story.cause.key == "no marker"
    assert "w: begins a transaction w:0" in messages(story)
    assert "__consumer_offsets/0: the marker is missing" in bad(story)


def test_what_happened_is_told_without_the_requests_if_their_times_are_not_known(tmp_path: Path) -> None:
    history, example = twice()
    write_store(tmp_path, [(1, history)], log=True)
    RunMetadata().save(tmp_path / "metadata.json")
    write_held_requests(tmp_path, "id-1")
    (tmp_path / "run.toml").write_text("[run]\n")
    t = RunTables(tmp_path, WALL_MS)
    found = [("reprocessed-input", AnomalyFindings(1, examples=[Example.from_json(example)]))]
    (story,) = counterexamples(Story(t, ()), found)
    assert "a/0 -> w: input @0" in messages(story)


def test_the_marker_of_the_transaction_before_is_not_that_of_an_aborted_one(tmp_path: Path) -> None:
    """The transaction before is ended after the start of the next one, whose abort is prepared at 40 ms."""
    history = History()
    history.feed(2)
    history.log_state(1, "PrepareCommit", ["x"])
    history.append_marker("x", 1, "commit")
    history.log_state(1, "CompleteCommit")
    history.transact(
        0,
        outcome="fail",
        fate="open",
        offsets_fate="abort",
        state="CompleteAbort",
        transactional_id="id-1",
        call_ns=0,
    )
    history.clock += 50_000_000
    history.transact(1, transactional_id="id-1")
    later = {"max_timestamp_ms": int(WALL_MS) + 90}
    history.alter(
        "batches", lambda row: row | later if row.get("marker") == "commit" and row["base_offset"] else row
    )
    ended = {"update_ms": int(WALL_MS) + 40}
    history.alter("transactions", lambda row: row | ended if row["log_offset"] in (3, 4) else row)
    (story,) = stories_of(tmp_path, history, {"record": record(1, "w:0:0")})
    assert story.cause.key == "no marker"


def test_the_offsets_of_a_retry_are_not_drawn_as_another_request(tmp_path: Path) -> None:
    history, example = twice()
    history.alter("offsets", lambda row: row | {"timestamp_ms": int(WALL_MS) + 605})
    for row in history.rows["ops"]:
        row["return_ns"] = 3_000_000_000
    commit = {"api": "TxnOffsetCommit", "asked": None, "groups": ("g",)}
    journal = ProxyJournal(tmp_path / JOURNAL)
    journal.write_request(replace(end_txn_at(0.6), **commit))
    journal.flush()
    (story,) = stories_of(tmp_path, history, example, held=["id-1"], sent_s=0.0, request=commit)
    assert "group g: stores offset 1 of a/0" in messages(story)
    assert "w -> group g: offset 1 of a/0" not in messages(story)


WITH_ZERO = f"[run]\nmonotonic_ns_at_zero = {ZERO_NS}\n"


def write_rule(folder: Path, request: RequestRecord, event: str, *, rule: str = "rule-1") -> None:
    """Write a request on which a rule acted when it was seen. Its words are `EVENT by RULE`."""
    request.rule = rule
    journal = ProxyJournal(folder / JOURNAL)
    journal.write_event(
        RuleEvent(rule, event, request.seen_ns, request.number, f"{event} by {rule}"), request
    )
    journal.write_request(request)
    journal.flush()


def answered_by_rule(folder: Path, at_s: float, **facts: Any) -> None:
    """Write a request of `id-1` that a rule answers with an error and never delivers."""
    refused = {"errors": ("UNKNOWN_SERVER_ERROR",), "returned_ns": at(at_s + 0.001)}
    write_rule(folder, end_txn(1, at_s, transactional_id="id-1", **refused | facts), "answered")


def delayed_by_rule(folder: Path, number: int, at_s: float) -> None:
    answers = {"delivered_ns": at(at_s), "answered_ns": at(at_s + 0.01), "returned_ns": at(at_s + 0.3)}
    facts: dict[str, Any] = {"api": "AddPartitionsToTxn", "asked": None, "transactional_id": "id-1"}
    write_rule(folder, end_txn(number, at_s, **facts | answers), "delayed", rule="rule-2")


def aborted_from_one_to_three_s() -> History:
    history = History()
    history.feed(2)
    history.clock = 1_000_000_000
    history.transact(0, fate="abort", outcome="fail", transactional_id="id-1", return_ns=3_000_000_000)
    return history


RULE = FaultReport(
    *("rule", "EndTxn requests", 0.1, 4.0, True, "answered by rule", "requests were changed by a rule"),
    details={"rule": "rule-1, helper-4"},
)


def test_an_abort_after_a_commit_that_a_rule_answered_is_the_cause(tmp_path: Path) -> None:
    answered_by_rule(tmp_path, 1.1, asked="commit")
    journal = ProxyJournal(tmp_path / JOURNAL)
    journal.write_request(end_txn_at(1.5))
    journal.flush()
    (story,) = stories_of(
        tmp_path,
        aborted_from_one_to_three_s(),
        {"record": record(0, "w:0:0")},
        plan=WITH_ZERO,
        faults=[structs.replace(RULE, details={"rule": "rule-2"}), RULE],
    )
    assert story.cause.known and story.cause.fault == 2
    assert story.cause.sentences == [
        "EndTxn(commit) 41 of id-1 was answered UNKNOWN_SERVER_ERROR by a rule at 1.101 s.",
        "It was never delivered, so w:0 stayed open.",
        "Its client went on in it, and EndTxn(abort) 49 aborted all of it at 1.510 s.",
    ]


def test_a_request_that_a_rule_answered_is_named_with_those_under_way_and_not_called_the_cause(
    tmp_path: Path,
) -> None:
    answered_by_rule(tmp_path, 1.5, api="AddPartitionsToTxn", asked=None)
    delayed_by_rule(tmp_path, 2, 1.1)
    delayed_by_rule(tmp_path, 3, 1.502)
    (story,) = stories_of(
        tmp_path,
        aborted_from_one_to_three_s(),
        {"record": record(0, "w:0:0")},
        plan=WITH_ZERO,
        faults=[RULE],
    )
    assert not story.cause.known
    first, answered, delayed = story.cause.sentences
    assert first == "The cause is not known. Rules changed requests in w:0:"
    assert (
        answered.startswith("AddPartitionsToTxn 41 of id-1: at 1.500 s sent")
        and "never delivered" in answered
    )
    assert delayed.startswith("AddPartitionsToTxn 43 of id-1: at 1.502 s sent")


def test_a_finding_of_another_transaction_does_not_get_the_changed_requests(tmp_path: Path) -> None:
    answered_by_rule(tmp_path, 1.5, api="AddPartitionsToTxn", asked=None)
    history = aborted_from_one_to_three_s()
    history.clock = 12_000_000_000
    history.transact(1, transactional_id="id-1")
    examples = [{"record": record(0, "w:0:0")}, {"record": record(2, "w:1:0")}]
    stories = stories_of(tmp_path, history, *examples, plan=WITH_ZERO, faults=[RULE])
    assert [story.counts for story in stories] == [{"reprocessed-input": 1}] * 2
    (other,) = [story for story in stories if story.shown.number == 2]
    assert other.cause.sentences == [
        "The cause is not known. The last fault before it: requests were changed by a rule at 1.500 s."
    ]


def test_a_story_of_all_examples_does_not_claim_the_findings_without_an_example(tmp_path: Path) -> None:
    history, example = twice()
    stories_of(tmp_path, history, example)
    t = RunTables(tmp_path, WALL_MS)
    findings = AnomalyFindings(149, examples=[Example.from_json(example)] * 2)
    (story,), _ = report_stories(Story(t, ()), [("reprocessed-input", findings)])
    assert story.counted == "Findings told here together: all 2 reprocessed-input that are shown (of 149)."


def test_the_lines_of_the_programs_of_a_finding_are_shown_around_it(tmp_path: Path) -> None:
    history, example = twice()
    stories_of(tmp_path, history, example)
    logs = {
        "w.log": [(0.004, "aborts password=plant-7"), (9.0, "later")],
        "feeder.log": [(0.004, "of no part")],
    }
    for name, lines in logs.items():
        stamped = [f"{logged_at(at_s)} {text}\n" for at_s, text in lines]
        (tmp_path / "workers").mkdir(exist_ok=True)
        (tmp_path / "workers" / name).write_text("".join(stamped))
    t = RunTables(tmp_path, WALL_MS)
    findings = AnomalyFindings(1, examples=[Example.from_json(example)])
    (story,), _ = report_stories(Story(t, ()), [("reprocessed-input", findings)])
    assert [(line.at, line.words) for line in story.log] == [("0.004 s", f"aborts password={REDACTED}")]
    whole_second = f"{logged_at(0.0)[:19]}Z"
    (tmp_path / "workers" / "w.log").write_text(f"{whole_second} aborts\n")
    (story,), _ = report_stories(Story(t, ()), [("reprocessed-input", findings)])
    first_s = datetime.fromisoformat(whole_second).timestamp() - WALL_MS / 1000
    assert [(line.at, line.words) for line in story.log] == [
        (f"{first_s:.1f} to {first_s + 1:.1f} s", "aborts")
    ]


def logged_at(at_s: float) -> str:
    stamp = datetime.fromtimestamp(WALL_MS / 1000 + at_s, UTC).isoformat(timespec="milliseconds")
    return stamp.replace("+00:00", "Z")


def broker_logs(folder: Path, at_s: float, text: str) -> None:
    path = folder / "brokers" / "2" / "server.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as log:
        log.write(f"{logged_at(at_s)} INFO {text}\n")


@pytest.mark.parametrize(
    "text",
    [
        "Preparing to rebalance group g in state Stable (reason: removing member c-1 on heartbeat expiration.). (org",
        "[GroupId g] Member c-1 fenced from the group because heartbeat expiration.",
    ],
)
def test_a_member_that_the_group_removed_before_the_finding_is_named_and_drawn(
    text: str, tmp_path: Path
) -> None:
    broker_logs(tmp_path, 0.003, text)
    broker_logs(tmp_path, 0.002, text.replace("group g", "group h").replace("GroupId g", "GroupId h"))
    (story,) = stories_of(tmp_path, *twice())
    assert story.cause.sentences == [
        "The cause is not known: no fault came before it.",
        "Group g removed c-1 at 0.003 s: heartbeat expiration.",
    ]
    assert messages(story).count("group g: removes c-1: heartbeat expiration") == 1


def test_the_line_of_a_broker_that_skipped_a_marker_is_part_of_the_cause(tmp_path: Path) -> None:
    skipped = (
        "Couldn't find leader endpoint for partitions HashSet(y-1, x-0) while trying to send transaction "
        "markers for {}, these partitions are likely deleted already and hence can be skipped"
    )
    broker_logs(tmp_path, 0.004, skipped.format("id-1"))
    broker_logs(tmp_path, 0.005, skipped.format("id-2"))
    (story,) = stories_of(tmp_path, without_marker(), {"record": record(0, "w:0:0")})
    assert story.cause.key == "no marker"
    assert story.cause.sentences[-1] == (
        "The log of broker 2 says at 0.004 s that it found no leader of x/0, and skips the marker because the "
        "partition is likely deleted (KAFKA-20734)."
    )


def test_an_input_is_not_drawn_to_a_transaction_that_only_went_past_it(tmp_path: Path) -> None:
    history = History()
    history.feed(2)
    history.transact(0, fate="abort", outcome="fail", offsets_fate="", transactional_id="id-1")
    history.transact(1, transactional_id="id-1")
    history.alter("stages", lambda row: row | {"journaled": False})
    example = {
        "input": {"topic": "a", "partition": 0, "offset": 0},
        "records": [record(0, None)],
        "passed_by": {"topic": "__consumer_offsets", "partition": 0, "offset": 0},
    }
    (story,) = stories_of(tmp_path, history, example, plan=PROGRAM)
    assert messages(story).count("a/0 -> id-1: input @0") == 1
    assert "id-1 -> group g: offset 2 of a/0" in messages(story)


def processed_again(**first: Any) -> tuple[History, dict[str, Any]]:
    """A worker processes an input and does not commit it; then another one does. The finding names only the second."""
    history = History()
    history.feed(1)
    history.transact(0, worker="w", pid=1, transactional_id="id-1", **first)
    second = history.transact(0, worker="v", pid=2, transactional_id="id-2")
    example = {
        "input": {"topic": "a", "partition": 0, "offset": 0},
        "records": [record(2, f"{second.name}:0")],
    }
    return history, example


def test_the_transaction_that_was_aborted_before_the_second_read_is_drawn(tmp_path: Path) -> None:
    (story,) = stories_of(tmp_path, *processed_again(outcome="fail"))
    drawn = messages(story)
    assert drawn[:2] == ["a/0 -> w: input @0", "w: begins a transaction w:0"]
    assert "w -> x/0: record @0" in drawn and "transaction coordinators -> x/0: abort marker @1" in drawn
    assert drawn.index("a/0 -> v: input @0") > drawn.index("transaction coordinators -> x/0: abort marker @1")


def test_a_committed_transaction_at_the_same_input_is_drawn_only_if_the_finding_names_it(
    tmp_path: Path,
) -> None:
    (story,) = stories_of(tmp_path, *processed_again())
    assert not any("w:0" in message for message in messages(story))


def test_without_journals_the_aborted_offsets_say_which_transaction_had_read_the_input(
    tmp_path: Path,
) -> None:
    history, example = processed_again(outcome="fail")
    history.alter("stages", lambda row: row | {"journaled": False})
    example["records"][0]["value"] = None
    (story,) = stories_of(tmp_path, history, example, plan=PROGRAM)
    drawn = messages(story)
    assert drawn[0] == "a/0 -> id-1: input @0" and "a/0 -> id-2: input @0" in drawn
    assert any(message.startswith("transaction coordinators: PrepareAbort of id-1") for message in drawn)
    inferred = {str(message) for message in story.diagram.messages if message.inferred}
    assert inferred == {"a/0 -> id-1: input @0", "a/0 -> id-2: input @0"}


def test_the_interval_of_a_diagram_has_all_its_messages(tmp_path: Path) -> None:
    (story,) = stories_of(tmp_path, *processed_again(outcome="fail"))
    times_ns = [message.at_ns for message in story.diagram.messages if message.at_ns is not None]
    assert story.diagram.interval_ns == (min(times_ns), max(times_ns))
    assert Diagram((), ()).interval_ns is None


def test_a_record_with_the_time_stamp_of_an_old_input_says_that_its_time_is_adjusted(tmp_path: Path) -> None:
    history, example = twice()
    old = {"max_timestamp_ms": int(WALL_MS) - 5_000}
    history.alter("batches", lambda row: row | old if row["producer_id"] == 2 and not row["control"] else row)
    (story,) = stories_of(tmp_path, history, example)
    (sent,) = [message for message in story.diagram.messages if message.adjusted]
    begun = next(message for message in story.diagram.messages if message.text == "begins a transaction v:0")
    assert (str(sent), sent.at_ns) == ("v -> x/0: record @2 (time adjusted)", begun.at_ns)


PROMISED = PROGRAM.replace("[[workload", '[workload]\nguarantee = "exactly-once"\n[[workload', 1)


def outside_transactions() -> tuple[History, dict[str, Any]]:
    """A program without journals writes an input's output twice, in no transaction. Kafka Streams gives an output the
    time stamp of its input.
    """
    history, example = twice()
    history.alter("stages", lambda row: row | {"journaled": False})
    history.alter("batches", lambda row: None if row["control"] else row | {"transactional": False})
    history.alter("transactions", lambda row: None)
    stamps = {1: int(WALL_MS) + 9_000, 2: int(WALL_MS) + 2_000}
    history.alter(
        "batches",
        lambda row: row | {"max_timestamp_ms": stamps.get(row["producer_id"], row["max_timestamp_ms"])},
    )
    return history, example


def test_a_record_in_no_transaction_was_written_after_those_below_it(tmp_path: Path) -> None:
    (story,) = stories_of(tmp_path, *outside_transactions(), plan=PROMISED)
    (sent,) = [message for message in story.diagram.messages if message.text.startswith("record @2")]
    assert (sent.text, sent.at_ns) == ("record @2 (then or later)", 9_000_000_000)


def test_outputs_in_no_transaction_are_the_cause_where_exactly_once_is_promised(tmp_path: Path) -> None:
    (story,) = stories_of(tmp_path / "eos", *outside_transactions(), plan=PROMISED)
    assert any("processing.guarantee" in sentence for sentence in story.cause.sentences)
    (other,) = stories_of(
        tmp_path / "alo", *outside_transactions(), plan=PROMISED.replace("exactly", "at-least")
    )
    assert not any("processing.guarantee" in sentence for sentence in other.cause.sentences)
