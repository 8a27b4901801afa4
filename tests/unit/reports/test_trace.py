"""The steps of traces of small runs, and the subjects that a trace refuses."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.common.errors import UnreadableInput, UsageError
from harness.record.protocol_journal import JOURNAL, ProxyJournal
from harness.record.table_reader import RunTables, spans
from harness.results.run_metadata import RunMetadata
from harness.results.verdict import FaultReport
from reports.story.by_journals import MARGIN_NS, of_fault, of_id, of_operation, of_record
from reports.story.model import Point
from reports.story.points import request_points
from reports.story.run import Story
from tests.support.changed_requests import at, end_txn, write_held_requests
from tests.support.histories import WALL_MS, History
from tests.support.stored_tables import Row, write_store


def stored(folder: Path, history: History, *, log: bool = True) -> RunTables:
    write_store(folder, [(1, history)], log=log)
    return RunTables(folder, WALL_MS)


def described(steps: list[Point]) -> list[str]:
    return [f"{step.actor}: {step.sentence}" for step in steps]


def one_transaction() -> History:
    history = History()
    history.feed(2)
    history.transact(0, 1, transactional_id="id-1")
    return history


def test_a_trace_of_an_operation_has_steps_from_all_tables_in_order(tmp_path: Path) -> None:
    t = stored(tmp_path, one_transaction())
    steps = of_operation(Story(t), "w:0")
    times = [step.at_ns for step in steps if step.at_ns is not None]
    assert times == sorted(times) and len(times) == len(steps)
    assert sorted(described(steps)) == sorted(
        [
            "w: w:0 begins a transaction as id-1 to commit with 2 records for inputs a/0 @ 0 to 1",
            "w: w:0 has acknowledgements of x/0 @ 0 to 1",
            "w: w:0 asks for the commit",
            "group g: offset 2 of a/0 is stored, in a transaction",
            "w: w:0 succeeds",
            "coordinator of id-1: Ongoing [x/0, __consumer_offsets/0], producer 1 epoch 0",
            "coordinator of id-1: PrepareCommit [x/0, __consumer_offsets/0], producer 1 epoch 0",
            "coordinator of id-1: CompleteCommit, producer 1 epoch 0",
            "log of x/0: commit marker at 2, above offset 1, by coordinator epoch 0",
            "log of __consumer_offsets/0: commit marker at 1, above offset 0, by coordinator epoch 0",
            "z: reads x/0 @ 0 to 1 of w:0",
        ]
    )


def test_a_trace_does_not_list_the_offsets_of_a_range_that_is_too_long(tmp_path: Path) -> None:
    history = one_transaction()
    history.alter("claims", lambda row: row | {"next": 10**15})
    history.alter("batches", lambda row: row | {"last_offset": row["base_offset"] + 10**15})
    t = stored(tmp_path, history)
    words = described(of_operation(Story(t), "w:0"))
    assert any(f"for inputs a/0 @ 0 to {10**15 - 1}" in text for text in words)
    assert "group g: offset 2 of a/0 is stored, in a transaction" in words


def test_a_trace_of_an_input_has_every_operation_that_took_it(tmp_path: Path) -> None:
    history = History()
    history.feed(2)
    history.transact(0, outcome="info", fate="abort", transactional_id="id-1")
    history.transact(0, 1, worker="v", pid=2, transactional_id="id-2")
    words = described(of_record(Story(stored(tmp_path, history)), "a", 0, 0))
    assert "f: f:0 sends with 1 record" in words
    assert "w: w:0 has no end: its process died" in words
    assert any(word.startswith("log of x/0: abort marker at 1") for word in words)
    assert "v: v:0 succeeds" in words
    assert not any("f:1" in word for word in words)  # the other input is not related


def test_a_trace_of_an_output_has_its_input(tmp_path: Path) -> None:
    words = described(of_record(Story(stored(tmp_path, one_transaction())), "x", 0, 1))
    assert "f: f:1 succeeds" in words and not any("f:0" in word for word in words)


def test_a_record_without_a_marker_is_open(tmp_path: Path) -> None:
    history = History()
    history.feed()
    history.transact(0, outcome="info", fate="open", transactional_id="id-1")
    words = described(of_operation(Story(stored(tmp_path, history)), "w:0"))
    assert "log of x/0: no marker is above offset 0: the transaction is open" in words


def test_an_offset_commit_outside_any_transaction_needs_no_marker(tmp_path: Path) -> None:
    history = History()
    history.feed(1)
    op = history.transact(0, offsets_fate="")
    history.commit_offset(1, op)
    words = described(of_operation(Story(stored(tmp_path, history)), op.name))
    assert "group g: offset 1 of a/0 is stored, outside any transaction" in words
    assert [step for step in words if "marker" in step] == [
        "log of x/0: commit marker at 1, above offset 0, by coordinator epoch 0"
    ]


def test_without_broker_logs_a_trace_has_the_other_steps(tmp_path: Path) -> None:
    words = described(of_operation(Story(stored(tmp_path, one_transaction(), log=False)), "w:0"))
    assert len(words) == 5 and not any("coordinator" in word for word in words)


def test_a_trace_of_an_id_has_all_its_transactions(tmp_path: Path) -> None:
    history = one_transaction()
    history.feed()
    history.transact(2, transactional_id="id-1")
    words = described(of_id(Story(stored(tmp_path, history)), "id-1"))
    assert sum(word.startswith("coordinator of id-1: CompleteCommit") for word in words) == 2


def test_a_read_has_the_time_at_which_the_reader_first_received_the_record(tmp_path: Path) -> None:
    history = one_transaction()
    at = {offset: history.entries["x"][offset]["value"] for offset in (0, 1)}
    times = []
    for offsets in ([0], [1], [0, 1]):
        op = history.op("o", "poll")
        times.append(history.tick())
        for offset in offsets:
            history.poll(op, "x", offset, at[offset], role="observer")
    t = stored(tmp_path, history)
    steps = [step for step in of_operation(Story(t), "w:0") if step.actor == "o"]
    assert [(step.at_ns, step.words) for step in steps] == [
        (times[0], "reads x/0 @ 0 of w:0"),
        (times[1], "reads x/0 @ 1 of w:0"),
    ]


def test_a_state_has_the_time_of_its_record_and_not_of_its_decision(tmp_path: Path) -> None:
    history = one_transaction()
    times: list[int] = []

    def decided_early(row: Row) -> Row:
        times.append(row["update_ms"])
        return row | {"update_ms": row["update_ms"] - 5_000}

    history.alter("transactions", decided_early)
    steps = [
        step
        for step in of_id(Story(stored(tmp_path, history)), "id-1")
        if step.actor == "coordinator of id-1"
    ]
    ends = [step.at_ns for step in steps if step.words.startswith("CompleteCommit")]
    assert ends == [(times[-1] - WALL_MS) * 1_000_000]


def one_fault(history: History, at_s: float, **details: str) -> RunMetadata:
    described = FaultReport(
        "kill-worker", "worker w", at_s, at_s + 1, True, "SIGKILL", "w was killed", details
    )
    return RunMetadata(faults=[described])


def test_a_trace_of_a_fault_has_the_operations_of_the_worker_that_it_names(tmp_path: Path) -> None:
    history = History()
    history.feed(2)
    w = history.transact(0, transactional_id="id-1", outcome="info", fate="abort")
    history.transact(1, worker="v", pid=2, transactional_id="id-2")
    t = stored(tmp_path, history)
    t.metadata = one_fault(history, history.rows["ops"][w.op]["call_ns"] / 1e9, worker="w")
    words = described(of_fault(Story(t), 1))
    assert "fault 1: w was killed (SIGKILL)" in words and "fault 1: kill-worker is over" in words
    assert any("w:0" in word for word in words) and not any("v:0" in word for word in words)


def test_a_trace_of_a_fault_has_operations_that_took_the_same_inputs_later(tmp_path: Path) -> None:
    history = History()
    history.feed(3)
    history.transact(2, worker="u", pid=3, transactional_id="id-3")
    w = history.transact(0, transactional_id="id-1", outcome="info", fate="abort")
    history.transact(0, 1, worker="v", pid=2, transactional_id="id-2")
    t = stored(tmp_path, history)
    t.metadata = one_fault(history, history.rows["ops"][w.op]["call_ns"] / 1e9, worker="w")
    words = described(of_fault(Story(t), 1))
    assert "v: v:0 succeeds" in words and not any("u:0" in word for word in words)


def test_an_operation_without_a_response_until_the_heal_is_in_the_trace(tmp_path: Path) -> None:
    history = History()
    history.feed(2)
    history.transact(0, transactional_id="id-1")
    w = history.transact(1, transactional_id="id-1")
    delayed = history.rows["ops"][w.op]
    delayed["return_ns"] += 2_000_000_000
    t = stored(tmp_path, history)
    t.metadata = one_fault(history, delayed["call_ns"] / 1e9 - 0.001, worker="w")
    words = described(of_fault(Story(t), 1))
    assert "w: w:1 succeeds" in words


def test_the_last_operation_before_a_fault_and_the_one_at_its_heal_are_in_the_trace(
    tmp_path: Path,
) -> None:
    history = History()
    history.feed(2)
    ops = [history.transact(at, transactional_id="id-1") for at in range(2)]
    first, second = (history.rows["ops"][operation.op] for operation in ops)
    second["call_ns"] += 100_000_000
    second["return_ns"] += 2_000_000_000
    t = stored(tmp_path, history)
    t.metadata = one_fault(history, first["return_ns"] / 1e9 + 0.001, worker="w")  # healed a second later
    words = described(of_fault(Story(t), 1))
    assert "w: w:0 succeeds" in words and "w: w:1 succeeds" in words


def test_a_fault_between_operations_is_traced_with_the_first_ones_after_it(
    tmp_path: Path,
) -> None:
    history = History()
    history.feed(6)
    ops = [history.transact(at, transactional_id="id-1") for at in range(6)]
    rows = history.rows["ops"]
    t = stored(tmp_path, history)
    t.metadata = one_fault(history, (rows[ops[1].op]["return_ns"] + 1) / 1e9)
    words = described(of_fault(Story(t), 1))
    assert [f"w: w:{n} succeeds" in words for n in range(6)] == [False, False, True, True, True, False]
    assert "fault 1: w was killed (SIGKILL)" in words and "fault 1: kill-worker is over" in words


def test_a_fault_without_operations_is_traced_alone(tmp_path: Path) -> None:
    t = stored(tmp_path, one_transaction())
    t.metadata = one_fault(History(), 1000.0)
    assert described(of_fault(Story(t), 1)) == [
        "fault 1: w was killed (SIGKILL)",
        "fault 1: kill-worker is over",
    ]


def test_a_fault_with_impossible_times_is_refused(tmp_path: Path) -> None:
    t = stored(tmp_path, one_transaction())
    t.metadata = one_fault(History(), 1e12)
    with pytest.raises(UnreadableInput, match=r"wrong times for fault 1: from 1000000000000.0 to"):
        of_fault(Story(t), 1)


def test_a_trace_of_a_record_leaves_out_unrelated_transactions_of_an_id(tmp_path: Path) -> None:
    history = History()
    history.feed(3)
    history.transact(0, transactional_id="id-1", outcome="info", fate="abort")
    history.transact(1, worker="v", pid=2, transactional_id="id-2")  # another input
    history.clock += 10_000_000  # more than the tolerance for brokers' clocks
    second_attempt = history.transact(0, worker="v", pid=2, transactional_id="id-2")
    begun_ns = history.rows["ops"][second_attempt.op]["call_ns"]
    steps = of_record(Story(stored(tmp_path, history)), "a", 0, 0)
    states = [step for step in steps if step.actor == "coordinator of id-2"]
    assert [step.words.split()[0] for step in states] == ["Ongoing", "PrepareCommit", "CompleteCommit,"]
    assert all(step.at_ns is not None and step.at_ns >= begun_ns for step in states)


@pytest.mark.parametrize(("successor", "is_shown"), [("w.1", False), ("v.0", True)])
def test_an_operation_that_never_ended_is_under_way_until_the_next_call_of_its_worker(
    successor: str, is_shown: bool, tmp_path: Path
) -> None:
    history = History()
    history.feed(3)
    unended = history.transact(0, worker="w.0", transactional_id="id-1", outcome="info", fate="abort")
    history.rows["ops"][unended.op]["return_ns"] = None
    history.transact(1, worker=successor, pid=2, transactional_id="id-2")
    during_fault = history.transact(2, worker="u.0", pid=3, transactional_id="id-3")
    t = stored(tmp_path, history)
    t.metadata = one_fault(history, history.rows["ops"][during_fault.op]["call_ns"] / 1e9)
    words = described(of_fault(Story(t), 1))
    assert "u.0: u.0:0 succeeds" in words and any("w.0:0" in word for word in words) is is_shown


def test_a_worker_between_two_operations_is_traced_with_its_last_one(tmp_path: Path) -> None:
    history = History()
    history.feed(2)
    w = history.transact(0, transactional_id="id-1")
    history.transact(1, worker="v", pid=2, transactional_id="id-2")
    t = stored(tmp_path, history)
    t.metadata = one_fault(history, history.rows["ops"][w.op]["return_ns"] / 1e9 + 0.001, worker="w")
    words = described(of_fault(Story(t), 1))
    assert "w: w:0 succeeds" in words and not any("v:0" in word for word in words)


@pytest.mark.parametrize(
    ("trace", "words"),
    [
        (lambda t: of_operation(Story(t), "w:9"), "the run has no operation w:9"),
        (lambda t: of_record(Story(t), "x", 0, 99), "the run has no record at x/0@99"),
        (lambda t: of_record(Story(t), "nowhere", 0, 0), "the run has no record at nowhere/0@0"),
        (lambda t: of_id(Story(t), "id-9"), "the run has no transactional id id-9"),
        (lambda t: of_fault(Story(t), 1), "the run has no fault 1: it has 0 faults"),
    ],
)
def test_a_subject_that_the_run_does_not_have_is_refused(trace: object, words: str, tmp_path: Path) -> None:
    t = stored(tmp_path, one_transaction())
    with pytest.raises(UsageError, match=words):
        trace(t)  # type: ignore[operator]


def test_consecutive_offsets_are_shown_as_a_range() -> None:
    assert spans([3, 1, 2, 7, 7, 9]) == "1 to 3, 7, 9"


def test_a_held_request_has_its_times_among_the_steps_of_its_transactional_id(tmp_path: Path) -> None:
    t = stored(tmp_path, one_transaction())
    write_held_requests(tmp_path, "id-1", "id-2")
    held = [
        (3_214_000_000, "EndTxn(abort) 41 of id-1: sent, and held by late-end-txn"),
        (
            4_414_000_000,
            "EndTxn(abort) 41 of id-1: delivered to broker 2 when AddOffsetsToTxn request 16 was seen",
        ),
        (4_420_000_000, "EndTxn(abort) 41 of id-1: answered NONE, which its client did not get"),
    ]
    steps = of_id(Story(t), "id-1")
    assert [(step.at_ns, step.words) for step in steps if step.actor == "protocol proxy"] == held
    times = [step.at_ns for step in steps if step.at_ns is not None]
    assert times == sorted(times)


def test_requests_that_no_rule_changed_are_steps_of_their_id_and_a_retry_is_said_to_be_one(
    tmp_path: Path,
) -> None:
    t = stored(tmp_path, one_transaction())
    write_held_requests(tmp_path, "id-1")
    retry = end_txn(
        2,
        3.284,
        transactional_id="id-1",
        connection=9,
        delivered_ns=at(3.284),
        answered_ns=at(3.3),
        returned_ns=at(3.3),
    )
    journal = ProxyJournal(tmp_path / JOURNAL)
    for request in (retry, replace(retry, number=3, transactional_ids=("id-2",), correlation=9)):
        journal.write_request(request)
    journal.flush()
    shown = {
        step.words: step.at_ns
        for step in of_id(Story(t), "id-1")
        if step.actor == "protocol proxy" and " 41 of" not in step.words
    }
    words = "EndTxn(abort) 42 of id-1: the client's retry of EndTxn(abort) 41 on another connection; "
    assert shown == {f"{words}delivered to broker 2, answered NONE at 3.300 s": 3_284_000_000}
    later = [step.words for step in request_points(Story(t), ["id-1"], 4_000_000_000, 5_000_000_000)]
    assert sum(step.startswith(words) for step in later) == 1  # with the request that it repeats
    assert list(request_points(Story(t), ["id-1"], 5_000_000_000)) == []


@pytest.mark.parametrize(
    ("asked", "words"),
    [("commit", "w:0 was told that it failed"), ("abort", "w:0 was told that it is aborted")],
)
def test_a_transaction_that_failed_for_its_client_is_not_said_to_be_without_effect(
    tmp_path: Path, asked: str, words: str
) -> None:
    history = History()
    history.feed(1)
    op = history.transact(0, transactional_id="id-1", outcome="fail", fate="abort")
    history.rows["ops"][op.op] |= {"asked": asked, "error": None}
    assert f"w: {words}" in described(of_operation(Story(stored(tmp_path, history)), "w:0"))


def test_a_trace_of_an_operation_has_the_changed_requests_of_its_time_only(tmp_path: Path) -> None:
    t = stored(tmp_path, one_transaction())
    (row,) = t.rows("ops", name=["w:0"])
    near_s = row["call_ns"] / 1e9
    write_held_requests(tmp_path, "id-1", "id-2", sent_s=near_s)
    write_held_requests(tmp_path, "id-1", sent_s=near_s + MARGIN_NS / 1e9 + 1.0, first=3)
    shown = {
        step.words.split(":")[0] for step in of_operation(Story(t), "w:0") if step.actor == "protocol proxy"
    }
    assert shown == {"EndTxn(abort) 41 of id-1"}


def test_a_trace_of_a_rule_has_the_requests_that_it_changed(tmp_path: Path) -> None:
    t = stored(tmp_path, one_transaction())
    write_held_requests(tmp_path, *(f"id-{number}" for number in range(60)))
    faults = [
        FaultReport(name, "requests", 3.0, 5.0, True, "proof", f"{name} acted")
        for name in ("late-end-txn", "kill-broker")
    ]
    RunMetadata(faults=faults).save(tmp_path / "metadata.json")
    by_rule = [step.words for step in of_fault(Story(t), 1) if step.actor == "protocol proxy"]
    assert (
        len(by_rule) == 3 * 50 + 1 and "10 more requests that a rule changed: see protocol.jsonl" in by_rule
    )
    assert not any("id-7" in step.words for step in of_fault(Story(t), 2))


def test_a_journal_whose_times_cannot_be_converted_is_refused(tmp_path: Path) -> None:
    t = stored(tmp_path, one_transaction())
    write_held_requests(tmp_path, "id-1")
    (tmp_path / "run.toml").write_text("[run]\n")
    with pytest.raises(UnreadableInput, match=r"protocol.jsonl is not shown: run.toml does not say when"):
        of_id(Story(t), "id-1")


def test_a_request_that_was_kept_behind_another_one_has_the_time_of_its_delivery(tmp_path: Path) -> None:
    t = stored(tmp_path, one_transaction())
    write_held_requests(tmp_path, "id-2")
    kept = end_txn(
        2, 3.1, transactional_id="id-1", delivered_ns=at(3.4), answered_ns=at(3.5), returned_ns=at(3.5)
    )
    journal = ProxyJournal(tmp_path / JOURNAL)
    journal.write_request(kept)
    journal.flush()
    (step,) = request_points(Story(t), ["id-1"])
    assert (
        step.words == "EndTxn(abort) 42 of id-1: delivered to broker 2 at 3.400 s, answered NONE at 3.500 s"
    )


def test_a_trace_says_that_the_journal_of_the_protocol_proxy_is_missing(tmp_path: Path) -> None:
    RunMetadata(protocol_crc=7).save(tmp_path / "metadata.json")
    (step,) = request_points(Story(RunTables(tmp_path)), ["id-1"])
    assert step.words == "protocol.jsonl is missing, so its requests are not known"
