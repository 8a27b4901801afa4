"""The steps of traces of programs without journals, from the broker logs."""

from pathlib import Path

import pytest

from harness.common.errors import UsageError
from harness.record.table_reader import RunTables
from harness.results.run_metadata import RunMetadata
from harness.results.verdict import FaultReport
from reports.story import by_logs
from reports.story.by_logs import of_fault, of_id, of_record
from reports.story.run import Story
from tests.support.changed_requests import write_held_requests
from tests.support.histories import WALL_MS, History
from tests.unit.reports.test_trace import described, one_transaction, stored


def without_journals(history: History) -> History:
    """Return the history without journals. Its outputs are joined to their inputs by a correlation key."""
    history.alter("stages", lambda row: row | {"journaled": False})
    history.alter(
        "records",
        lambda row: (
            row
            | {
                "value": None,
                "inputs": [],
                "correlation_key": f"n-{row['offset']}",
                "content": f"held {row['offset']}",
            }
            if row["tp"] == history.tp["x"]
            else row
        ),
    )
    history.alter("expected", lambda row: row | {"correlation_key": f"n-{row['offset']}"})
    return history


def tables(folder: Path, history: History) -> RunTables:
    run_tables = stored(folder, without_journals(history))
    assert run_tables.without_journals
    return run_tables


STATES = [
    "coordinator of id-1: Ongoing [x/0, __consumer_offsets/0], producer 1 epoch 0",
    "coordinator of id-1: PrepareCommit [x/0, __consumer_offsets/0], producer 1 epoch 0",
    "coordinator of id-1: CompleteCommit, producer 1 epoch 0",
]


def test_an_output_is_traced_with_its_transaction_offsets_readers_and_input(tmp_path: Path) -> None:
    words = described(of_record(Story(tables(tmp_path, one_transaction())), "x", 0, 1))
    assert {
        *STATES,
        "log of x/0: offset 1 is written by producer 1 epoch 0 (id-1 of w), and holds held 1",
        "log of x/0: commit marker at 2, above offset 1, by coordinator epoch 0",
        "group g: offset 2 of a/0 is stored, in a transaction",
        "z: reads x/0 @ 1",
        "log of a/0: offset 1 is written by a producer without a producer id",
    } <= set(words)
    assert not any("offset 0 is written" in word for word in words), (
        "the other input is not an input of this output"
    )


def test_an_input_is_traced_with_its_outputs_and_the_commit_that_passed_it(tmp_path: Path) -> None:
    words = described(of_record(Story(tables(tmp_path, one_transaction())), "a", 0, 0))
    assert "group g: offset 2 of a/0 is stored, in a transaction" in words
    assert "log of x/0: offset 0 is written by producer 1 epoch 0 (id-1 of w), and holds held 0" in words


@pytest.mark.parametrize("at_once", [1, 32])
def test_an_input_is_traced_with_the_aborted_commits_before_the_one_that_counts(
    at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(by_logs, "LOOKED_UP_AT_ONCE", at_once)
    history = History()
    history.feed(3)
    history.transact(0, 1, outcome="fail", transactional_id="id-1")
    history.transact(1, transactional_id="id-1")
    history.transact(2, transactional_id="id-1")
    words = described(of_record(Story(tables(tmp_path, history)), "a", 0, 0))
    of_offsets = [word for word in words if word.startswith(("group g", "log of __consumer_offsets/0"))]
    stored_offset = "group g: offset 2 of a/0 is stored, in a transaction"
    marker = "{} marker at {}, above offset {}, by coordinator epoch 0"
    assert of_offsets == [
        stored_offset,
        "log of __consumer_offsets/0: " + marker.format("abort", 1, 0),
        stored_offset,
        "log of __consumer_offsets/0: " + marker.format("commit", 3, 2),
    ]
    assert {
        "coordinator of id-1: PrepareAbort [x/0, __consumer_offsets/0], producer 1 epoch 0",
        STATES[1],
    } <= set(words)


def test_the_transaction_of_a_record_is_the_one_that_its_marker_ended(tmp_path: Path) -> None:
    history = History()
    history.feed(2)
    history.transact(0, transactional_id="id-1")
    history.transact(1, transactional_id="id-1")
    words = described(of_record(Story(tables(tmp_path, history)), "x", 0, 2))
    assert [word for word in words if word.startswith("coordinator")] == STATES


def test_a_last_record_is_traced_with_the_other_records_of_its_key(tmp_path: Path) -> None:
    history = one_transaction()
    for state in (3, 7):
        history.append("y", None, key="k", state=state)
    history.append("y", None, key="j", state=1)
    history.expect_amount(0, "k", 3)
    t = tables(tmp_path, history)
    of_last = [word for word in described(of_record(Story(t), "y", 0, 1)) if "log of y/0" in word]
    first, second = (word.partition(" is written")[0] for word in of_last)
    assert {first, second} == {"log of y/0: offset 0", "log of y/0: offset 1"}
    of_input = [word for word in described(of_record(Story(t), "a", 0, 0)) if "log of y/0" in word]
    assert len(of_input) == 2


def test_an_open_transaction_has_no_marker(tmp_path: Path) -> None:
    history = History()
    history.feed(1)
    history.transact(0, fate="open", transactional_id="id-1")
    words = described(of_record(Story(tables(tmp_path, history)), "x", 0, 0))
    assert "log of x/0: no marker is above offset 0: the transaction is open" in words


def test_an_id_and_a_fault_are_traced_by_the_transaction_log(tmp_path: Path) -> None:
    t = tables(tmp_path, one_transaction())
    assert described(of_id(Story(t), "id-1")) == STATES
    with pytest.raises(UsageError, match="no transactional id id-2: it has id-1"):
        of_id(Story(t), "id-2")
    details = {"transactional_id": "id-1"}
    fault = FaultReport(
        "kill-instance", "worker s/s-1", 0.0, 1.0, True, "killed", "s/s-1 was killed", details
    )
    t.metadata = RunMetadata(faults=[fault])
    words = described(of_fault(Story(t), 1))
    assert {"fault 1: s/s-1 was killed (killed)", "fault 1: kill-instance is over"} <= set(words)
    with pytest.raises(UsageError, match="has no fault 2"):
        of_fault(Story(t), 2)


def test_a_held_request_is_among_the_steps_of_a_record_of_its_transaction(tmp_path: Path) -> None:
    first = next(step for step in of_id(Story(tables(tmp_path, one_transaction())), "id-1") if step.at_ns)
    write_held_requests(tmp_path, "id-1", "id-2", sent_s=(first.at_ns or 0) / 1e9)
    t = RunTables(tmp_path, WALL_MS)
    held = {word for word in described(of_id(Story(t), "id-1")) if word.startswith("protocol proxy")}
    assert "protocol proxy: EndTxn(abort) 41 of id-1: answered NONE, which its client did not get" in held
    assert len(held) == 3
    assert held <= set(described(of_record(Story(t), "x", 0, 1)))
