"""Journals become tables: no event is lost, and no event counts twice."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.model.pipeline import StageSpec
from harness.model.vocabulary import Outcome
from harness.record.events import Assigned, Completed, EndInvoked, EndsRead, Invoked, JournalBegan, Polled
from harness.record.journal import Journal
from harness.record.naming import PartitionIds
from harness.record.schema import HISTORY, LOG, find_mismatch, is_added
from harness.record.tables import Tabulator
from harness.roles.observer import RecordCounts

STAGES = (StageSpec("shop", ("in",), "g", "read_committed"),)


def head_of(name: str, role: str = "worker") -> JournalBegan:
    return JournalBegan(name, role=role, stage="shop" if role == "worker" else None, process=1)


class JournalFolder:
    """A folder with journals. `table` makes the tables from them and reads one table."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def journal(self, name: str = "shop-1.0") -> Journal:
        return Journal(self.folder / f"{name}.jsonl", 0, head_of(name))

    def table(self, name: str) -> list[dict[str, Any]]:
        tables = Tabulator(7, STAGES, PartitionIds())
        tables.write(sorted(self.folder.glob("*.jsonl")), self.folder / "history")
        self.tables = tables
        rows: list[dict[str, Any]] = pq.read_table(self.folder / "history" / f"{name}.parquet").to_pylist()
        return rows


@pytest.fixture
def journals(tmp_path: Path) -> JournalFolder:
    return JournalFolder(tmp_path)


def write_txn(journal: Journal, end: Outcome | None = Outcome.OK, offset: int | None = 41) -> None:
    """Write one transaction with one send. With `end` None, its completion is missing."""
    op = journal.number()
    sends = [["out", "invoice", 99, "in/0", 7]]
    journal.write(Invoked("txn", 1, op, asked="commit", sends=sends, claims={"in/0": (7, 8)}))
    journal.write(EndInvoked("commit", op, [(2, offset)]))
    if end:
        journal.write(Completed(end, "txn", 1, op))


def test_a_transaction_becomes_an_operation_its_sends_and_its_claims(journals: JournalFolder) -> None:
    with journals.journal() as journal:
        write_txn(journal)
    (op,) = journals.table("ops")
    (send,) = journals.table("sends")
    (claim,) = journals.table("claims")
    assert (op["name"], op["outcome"], op["asked"], op["group"]) == ("shop-1.0:0", "ok", "commit", "g")
    assert op["call_ns"] <= op["commit_ns"] <= op["return_ns"]
    assert (op["line"], op["end_line"]) == (2, 4)
    assert (send["value"], send["offset"], send["acked"], send["digest"]) == ("shop-1.0:0:0", 41, True, 99)
    assert [pair["offset"] for pair in send["inputs"]] == [7]
    assert (claim["first"], claim["next"]) == (7, 8)
    (row,) = journals.table("journals")
    assert (row["sends"], row["claims"]) == (1, 1)


def test_a_worker_killed_during_its_commit_leaves_an_info(journals: JournalFolder) -> None:
    write_txn(journals.journal(), end=None)
    (op,) = journals.table("ops")
    assert op["outcome"] == "info"
    assert op["commit_ns"] is not None
    assert op["return_ns"] is None
    assert journals.table("sends")[0]["acked"]
    (journal,) = journals.table("journals")
    assert not journal["ended"]


def test_a_worker_killed_during_its_sends_has_no_acknowledgement(journals: JournalFolder) -> None:
    journal = journals.journal()
    sends = [["out", "s", 1, "in/0", 7]]
    journal.write(Invoked("txn", 1, journal.number(), asked="commit", sends=sends, claims={}))
    (send,) = journals.table("sends")
    assert (send["acked"], send["offset"]) == (False, None)
    assert journals.table("ops")[0]["commit_ns"] is None


def test_an_acknowledgement_without_an_offset_has_only_a_partition(journals: JournalFolder) -> None:
    write_txn(journals.journal(), offset=None)
    (send,) = journals.table("sends")
    (journal,) = journals.table("journals")
    assert journal["missing_lines"] == 0
    assert (send["acked"], send["tp"] is None, send["offset"]) == (True, False, None)


def test_a_torn_last_line_is_dropped_and_counted(journals: JournalFolder) -> None:
    write_txn(journals.journal())
    path = journals.folder / "shop-1.0.jsonl"
    path.write_bytes(path.read_bytes()[:-9])
    (op,) = journals.table("ops")
    assert op["outcome"] == "info"
    (journal,) = journals.table("journals")
    assert (journal["torn_lines"], journal["missing_lines"]) == (1, 0)


@pytest.mark.parametrize("dropped", [1, 2, 3])
def test_a_removed_line_is_counted_as_missing(journals: JournalFolder, dropped: int) -> None:
    with journals.journal() as journal:
        write_txn(journal)
    path = journals.folder / "shop-1.0.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:dropped] + lines[dropped + 1 :]))
    (journal_row,) = journals.table("journals")
    assert journal_row["missing_lines"] >= 1


def test_repeated_and_reordered_lines_are_ignored_and_counted_as_missing(journals: JournalFolder) -> None:
    with journals.journal() as journal:
        write_txn(journal)
        write_txn(journal)
    before = journals.table("ops")
    path = journals.folder / "shop-1.0.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:4], *lines[1:4], *lines[4:]]))
    assert [(row["op"], row["outcome"]) for row in journals.table("ops")] == [
        (row["op"], row["outcome"]) for row in before
    ]
    assert journals.table("journals")[0]["missing_lines"] == 3
    path.write_bytes(b"".join([*lines[:2], lines[3], lines[2], *lines[4:]]))
    assert journals.table("journals")[0]["missing_lines"] >= 1


def test_an_unreadable_line_in_the_middle_is_missing_and_not_torn(journals: JournalFolder) -> None:
    with journals.journal() as journal:
        write_txn(journal)
    path = journals.folder / "shop-1.0.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = b'{"index": 2, "ty\x00\n'
    path.write_bytes(b"".join(lines))
    (journal_row,) = journals.table("journals")
    # The line itself, and the acknowledgements that are lost with it.
    assert (journal_row["torn_lines"], journal_row["missing_lines"]) == (0, 2)


def test_operations_of_two_journals_do_not_share_a_number(journals: JournalFolder) -> None:
    for name in ("shop-1.0", "shop-2.0"):
        with journals.journal(name) as journal:
            write_txn(journal)
            write_txn(journal)
    ops = journals.table("ops")
    assert sorted(op["op"] for op in ops) == [0, 1, 2, 3]
    assert journals.tables.op_of("shop-2.0:1") == next(op["op"] for op in ops if op["name"] == "shop-2.0:1")
    assert [journals.tables.op_of(name) for name in ("unknown:1", "shop-1.0:2", "shop-2.0:-1")] == [None] * 3


def test_a_poll_keeps_the_order_of_delivery(journals: JournalFolder) -> None:
    with journals.journal() as journal:
        records = {"in/0": [[5, "a"], [4, "b"]]}
        journal.write(Polled(1, journal.number(), 0, records))
    polls = journals.table("polls")
    assert [(poll["n"], poll["offset"], poll["value"]) for poll in polls] == [(0, 5, "a"), (1, 4, "b")]
    assert {poll["promised"] for poll in polls} == {"read_committed"}


def test_a_missing_an_additional_and_a_changed_column_are_reported() -> None:
    for table, schema in (HISTORY | LOG).items():
        assert find_mismatch(table, schema) is None
        for column in schema:
            others = pa.schema([kept for kept in schema if kept.name != column.name])
            assert find_mismatch(table, others) == (None if is_added(column) else column.name)
    assert find_mismatch("stages", HISTORY["stages"].append(pa.field("more", pa.int64()))) == "more"
    other = HISTORY["stages"].set(5, pa.field("ordered", pa.string()))
    assert find_mismatch("stages", other) == "ordered"


def test_an_assignment_has_the_start_offsets(journals: JournalFolder) -> None:
    with journals.journal() as journal:
        journal.write(Assigned(1, True, ["in/0", "in/1"], [7, None]))
        journal.write(Assigned(1, False, ["in/0", "in/1"]))
    assert [row["offset"] for row in journals.table("assignments")] == [7, None, None, None]


def test_an_assignment_without_start_offsets_is_a_missing_line(journals: JournalFolder) -> None:
    with journals.journal() as journal:
        journal.write(Assigned(1, True, ["in/0"]))
    assert journals.table("assignments") == []
    assert [row["missing_lines"] for row in journals.table("journals")] == [1]


def test_a_transaction_has_its_own_transactional_id_or_that_of_the_last_init(journals: JournalFolder) -> None:
    with journals.journal() as journal:
        op = journal.number()
        journal.write(Invoked("init", 1, op, transactional_id="a"))
        journal.write(Completed(Outcome.OK, "init", 1, op))
        journal.write(Invoked("txn", 1, journal.number(), transactional_id="b"))
        journal.write(Invoked("txn", 1, journal.number()))
    assert [row["transactional_id"] for row in journals.table("ops")] == ["a", "b", "a"]


def test_the_ends_of_an_observer_have_the_role_observer(journals: JournalFolder) -> None:
    with Journal(journals.folder / "observer-1.jsonl", 0, head_of("observer-1", "observer")) as journal:
        journal.write(EndsRead("read_committed", RecordCounts([("out", 0), ("out", 1)]).ends))
    assert [(row["role"], row["read"]) for row in journals.table("ends")] == [
        ("observer", 0),
        ("observer", 0),
    ]
