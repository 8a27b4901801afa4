"""Journals become tables: nothing that was said is lost, and nothing is read as more."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.model.pipeline import StageSpec
from harness.model.vocabulary import Outcome
from harness.record.events import Assigned, Completed, EndInvoked, EndsRead, Invoked, JournalBegan, Polled
from harness.record.journal import Journal
from harness.record.partitions import PartitionIds
from harness.record.schema import HISTORY, LOG, find_mismatch
from harness.record.tables import Tabulator
from harness.roles.record_counts import RecordCounts

STAGES = (StageSpec("shop", ("in",), "g", "read_committed"),)


def begun(name: str, role: str = "worker") -> JournalBegan:
    return JournalBegan(name, role=role, stage="shop" if role == "worker" else None, process=1)


class Desk:
    """A folder with journals, and the tables that they become."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def journal(self, name: str = "shop-1.0") -> Journal:
        return Journal(self.folder / f"{name}.jsonl", 0, begun(name))

    def table(self, name: str) -> list[dict[str, Any]]:
        tables = Tabulator(7, STAGES, PartitionIds())
        tables.write(sorted(self.folder.glob("*.jsonl")), self.folder / "history")
        self.tables = tables
        rows: list[dict[str, Any]] = pq.read_table(self.folder / "history" / f"{name}.parquet").to_pylist()
        return rows


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def txn(journal: Journal, end: Outcome | None = Outcome.OK, offset: int | None = 41) -> None:
    """One transaction with one send, up to and including its commit."""
    op = journal.number()
    sends = [["out", "invoice", 99, "in/0", 7]]
    journal.write(Invoked("txn", 1, op, asked="commit", sends=sends, claims={"in/0": (7, 8)}))
    journal.write(EndInvoked("commit", op, [(2, offset)]))
    if end:
        journal.write(Completed(end, "txn", 1, op))


def test_a_transaction_becomes_an_operation_its_sends_and_its_claims(desk: Desk) -> None:
    with desk.journal() as journal:
        txn(journal)
    (op,) = desk.table("ops")
    (send,) = desk.table("sends")
    (claim,) = desk.table("claims")
    assert (op["name"], op["outcome"], op["asked"], op["group"]) == ("shop-1.0:0", "ok", "commit", "g")
    assert op["call_ns"] <= op["commit_ns"] <= op["return_ns"]
    assert (op["line"], op["end_line"]) == (2, 4)
    assert (send["value"], send["offset"], send["acked"], send["digest"]) == ("shop-1.0:0:0", 41, True, 99)
    assert [place["offset"] for place in send["inputs"]] == [7]
    assert (claim["first"], claim["next"]) == (7, 8)
    (row,) = desk.table("journals")
    assert (row["sends"], row["claims"]) == (1, 1)


def test_a_worker_killed_while_committing_leaves_an_info_that_had_asked_to_commit(desk: Desk) -> None:
    txn(desk.journal(), end=None)
    (op,) = desk.table("ops")
    assert op["outcome"] == "info"
    assert op["commit_ns"] is not None
    assert op["return_ns"] is None
    assert desk.table("sends")[0]["acked"]
    (journal,) = desk.table("journals")
    assert not journal["ended"]


def test_a_worker_killed_while_sending_has_acknowledged_nothing(desk: Desk) -> None:
    journal = desk.journal()
    sends = [["out", "s", 1, "in/0", 7]]
    journal.write(Invoked("txn", 1, journal.number(), asked="commit", sends=sends, claims={}))
    (send,) = desk.table("sends")
    assert (send["acked"], send["offset"]) == (False, None)
    assert desk.table("ops")[0]["commit_ns"] is None


def test_what_was_acknowledged_without_an_offset_has_a_partition_alone(desk: Desk) -> None:
    txn(desk.journal(), offset=None)
    (send,) = desk.table("sends")
    (journal,) = desk.table("journals")
    assert journal["missing_lines"] == 0
    assert (send["acked"], send["tp"] is None, send["offset"]) == (True, False, None)


def test_a_torn_last_line_is_dropped_and_counted(desk: Desk) -> None:
    txn(desk.journal())
    path = desk.folder / "shop-1.0.jsonl"
    path.write_bytes(path.read_bytes()[:-9])
    (op,) = desk.table("ops")
    assert op["outcome"] == "info"
    (journal,) = desk.table("journals")
    assert (journal["torn_lines"], journal["missing_lines"]) == (1, 0)


@pytest.mark.parametrize("dropped", [1, 2, 3])
def test_a_line_that_was_taken_out_is_missed(desk: Desk, dropped: int) -> None:
    with desk.journal() as journal:
        txn(journal)
    path = desk.folder / "shop-1.0.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:dropped] + lines[dropped + 1 :]))
    (journal_row,) = desk.table("journals")
    assert journal_row["missing_lines"] >= 1


def test_lines_that_stand_twice_or_out_of_their_place_count_once_and_are_told(desk: Desk) -> None:
    with desk.journal() as journal:
        txn(journal)
        txn(journal)
    whole = desk.table("ops")
    path = desk.folder / "shop-1.0.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:4], *lines[1:4], *lines[4:]]))
    assert [(row["op"], row["outcome"]) for row in desk.table("ops")] == [
        (row["op"], row["outcome"]) for row in whole
    ]
    assert desk.table("journals")[0]["missing_lines"] == 3
    path.write_bytes(b"".join([*lines[:2], lines[3], lines[2], *lines[4:]]))
    assert desk.table("journals")[0]["missing_lines"] >= 1


def test_a_line_that_cannot_be_read_in_the_middle_is_missing_not_torn(desk: Desk) -> None:
    with desk.journal() as journal:
        txn(journal)
    path = desk.folder / "shop-1.0.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = b'{"index": 2, "ty\x00\n'
    path.write_bytes(b"".join(lines))
    (journal_row,) = desk.table("journals")
    # The line, and the acknowledgements that it held.
    assert (journal_row["torn_lines"], journal_row["missing_lines"]) == (0, 2)


def test_operations_of_two_journals_do_not_share_a_number(desk: Desk) -> None:
    for name in ("shop-1.0", "shop-2.0"):
        with desk.journal(name) as journal:
            txn(journal)
            txn(journal)
    ops = desk.table("ops")
    assert sorted(op["op"] for op in ops) == [0, 1, 2, 3]
    assert desk.tables.op_of("shop-2.0:1") == next(op["op"] for op in ops if op["name"] == "shop-2.0:1")
    assert [desk.tables.op_of(name) for name in ("nobody:1", "shop-1.0:2", "shop-2.0:-1")] == [None] * 3


def test_a_poll_keeps_the_order_of_delivery(desk: Desk) -> None:
    with desk.journal() as journal:
        records = {"in/0": [[5, "a"], [4, "b"]]}
        journal.write(Polled(1, journal.number(), 0, records))
    polls = desk.table("polls")
    assert [(poll["n"], poll["offset"], poll["value"]) for poll in polls] == [(0, 5, "a"), (1, 4, "b")]
    assert {poll["promised"] for poll in polls} == {"read_committed"}


def test_a_table_has_exactly_its_columns() -> None:
    for table, schema in (HISTORY | LOG).items():
        assert find_mismatch(table, schema) is None
        for column in schema:
            assert (
                find_mismatch(table, pa.schema([one for one in schema if one.name != column.name]))
                == column.name
            )
    assert find_mismatch("stages", HISTORY["stages"].append(pa.field("more", pa.int64()))) == "more"
    other = HISTORY["stages"].set(5, pa.field("ordered", pa.string()))
    assert find_mismatch("stages", other) == "ordered"


def test_an_assignment_says_where_the_worker_began(desk: Desk) -> None:
    with desk.journal() as journal:
        journal.write(Assigned(1, True, ["in/0", "in/1"], [7, None]))
        journal.write(Assigned(1, False, ["in/0", "in/1"]))
    assert [row["offset"] for row in desk.table("assignments")] == [7, None, None, None]


def test_an_assignment_that_does_not_say_where_the_worker_began_is_missing(desk: Desk) -> None:
    with desk.journal() as journal:
        journal.write(Assigned(1, True, ["in/0"]))
    assert desk.table("assignments") == []
    assert [row["missing_lines"] for row in desk.table("journals")] == [1]


def test_a_transaction_bears_its_own_transactional_id_where_it_says_so(desk: Desk) -> None:
    with desk.journal() as journal:
        op = journal.number()
        journal.write(Invoked("init", 1, op, transactional_id="a"))
        journal.write(Completed(Outcome.OK, "init", 1, op))
        journal.write(Invoked("txn", 1, journal.number(), transactional_id="b"))
        journal.write(Invoked("txn", 1, journal.number()))
    assert [row["transactional_id"] for row in desk.table("ops")] == ["a", "b", "a"]


def test_an_observer_says_what_it_was_given_and_is_no_final_reader(desk: Desk) -> None:
    with Journal(desk.folder / "observer-1.jsonl", 0, begun("observer-1", "observer")) as journal:
        journal.write(EndsRead("read_committed", RecordCounts([("out", 0), ("out", 1)]).ends))
    assert [(row["role"], row["read"]) for row in desk.table("ends")] == [("observer", 0), ("observer", 0)]
