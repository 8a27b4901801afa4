"""Tables that are begun while final readers still read are those that are made at once; given up, there are none."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

from harness.history import Isolation, Outcome
from harness.pipeline import PipelineFacts, StageFacts
from harness.promises import NO_WITNESS
from harness.record.events import Begun, Completed, EndsRead, Invoked, Polled, ReadEnd
from harness.record.journal import Journal
from harness.record.schema import HISTORY
from harness.runner.tabulate import Ends, Tabulation, tabulate
from harness.waiting import wait_for

PLAN: Any = SimpleNamespace(
    run={"id": 7},
    pipeline=PipelineFacts("p", (), (StageFacts("s", ("in",), "g"),)),
    promises=SimpleNamespace(witness=NO_WITNESS, history=False),
)
NAMES = ["feeder", "final-read_committed", "observer-1", "s-1.0", "zombie-1.0"]


def journal_of(folder: Path, name: str) -> None:
    """One operation, and one read."""
    role = {"feeder": "feeder", "observer-1": "observer"}.get(
        name, "final" if name.startswith("final") else "worker"
    )
    begun = Begun(name, role=role, stage="s" if role == "worker" else None, process=1)
    (folder / "journals").mkdir(exist_ok=True)
    with Journal(folder / "journals" / f"{name}.jsonl", 0, begun) as journal:
        op = journal.number()
        if role in ("final", "observer"):
            journal.write(Polled(1, op, 1, {"in/0": [[3, None]]}))
            journal.write(EndsRead(Isolation.READ_COMMITTED.value, {"in/0": ReadEnd(0, 4, 1, 3)}))
        else:
            journal.write(Invoked("txn", 1, op, asked="commit", sends=[["in", "slot", 9, "in/0", 7]]))
            journal.write(Completed(Outcome.OK, "txn", 1, op, acks=[(0, 3)]))


def rows(folder: Path, table: str) -> list[dict[str, Any]]:
    """Without what differs from one writing to the next: when it was written."""
    found: list[dict[str, Any]] = pq.read_table(folder / "history" / f"{table}.parquet").to_pylist()
    return [
        {
            name: cell
            for name, cell in row.items()
            if not name.endswith("_ns") and name not in ("pid", "call", "return")
        }
        for row in found
    ]


def test_tables_that_were_begun_early_are_the_same(tmp_path: Path) -> None:
    early, whole = tmp_path / "early", tmp_path / "whole"
    for folder in (early, whole):
        folder.mkdir()
        for name in NAMES:
            if not (folder == early and name.startswith("final")):
                journal_of(folder, name)
    with Tabulation(early, PLAN) as tables:
        tables.begin()
        journal_of(early, "final-read_committed")
        tables.finish(Ends({}, {}))
    tabulate(whole, PLAN)
    for table in HISTORY:
        assert rows(early, table) == rows(whole, table)
    assert [row["journal"] for row in rows(early, "journals")] == [
        *sorted({*NAMES} - {"final-read_committed"}),
        "final-read_committed",
    ]
    assert len(rows(early, "ops")) == 5 and len(rows(early, "polls")) == 2


def test_none_may_be_there_at_the_beginning_or_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "journals").mkdir()
    with Tabulation(tmp_path, PLAN) as tables:
        tables.begin()
        journal_of(tmp_path, "final-read_committed")
        tables.finish()
    assert [row["journal"] for row in rows(tmp_path, "journals")] == ["final-read_committed"]


def test_what_is_written_on_after_it_was_read_is_read_again(tmp_path: Path) -> None:
    for name in NAMES:
        journal_of(tmp_path, name)
    path = tmp_path / "journals" / "s-1.0.jsonl"
    whole = path.read_bytes()
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:2]))  # its operation is open still
    with Tabulation(tmp_path, PLAN) as tables:
        tables.begin()
        wait_for(
            lambda: tables._tables.op_of("zombie-1.0:0"), "the last of them to be read", 10, every_s=0.01
        )
        path.write_bytes(whole)
        tables.finish()
    outcomes = {row["journal"]: row["outcome"] for row in rows(tmp_path, "ops")}
    assert set(outcomes) == {*NAMES} and outcomes["s-1.0"] == "ok"


def test_given_up_they_leave_no_tables(tmp_path: Path) -> None:
    journal_of(tmp_path, "feeder")
    with Tabulation(tmp_path, PLAN) as tables:
        tables.begin()
    assert not list((tmp_path / "history").iterdir())
    tabulate(tmp_path, PLAN)
    assert rows(tmp_path, "ops")


def test_what_goes_wrong_early_is_raised_at_the_end(tmp_path: Path) -> None:
    journal_of(tmp_path, "feeder")
    (tmp_path / "history").write_text("a file where the folder should be")
    with Tabulation(tmp_path, PLAN) as tables:
        tables.begin()
        with pytest.raises(FileExistsError):
            tables.finish()
