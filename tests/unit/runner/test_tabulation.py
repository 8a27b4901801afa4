"""The evidence of a run becomes tables with the numbers of its plan. After an error there are no tables."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

from harness.common.errors import UnreadableInput
from harness.model.pipeline import PipelineSpec, StageSpec, TableSpec, TopicSpec
from harness.model.promises import NO_WITNESS
from harness.model.vocabulary import Isolation, Outcome
from harness.record.events import Completed, EndsRead, Invoked, JournalBegan, Polled, ReadEnd
from harness.record.journal import Journal
from harness.record.parts import PartWriter, parts_folder
from harness.witness.tabulate import tabulate

PLAN: Any = SimpleNamespace(
    run={"id": 7},
    pipeline=PipelineSpec(
        "p",
        (TopicSpec("out", 2), TopicSpec("in", 1)),
        (StageSpec("s", ("in",), "g"),),
        tables=(TableSpec("t", "sqlite"),),
    ),
    promises=SimpleNamespace(witness=NO_WITNESS, history=False),
)
NAMES = ["feeder", "final-read_committed", "observer-1", "s-1.0", "zombie-1.0"]


def journal_of(folder: Path, name: str) -> None:
    """Write a journal with one operation, or with one poll."""
    role = {"feeder": "feeder", "observer-1": "observer"}.get(
        name, "final" if name.startswith("final") else "worker"
    )
    head = JournalBegan(name, role=role, stage="s" if role == "worker" else None, process=1)
    (folder / "journals").mkdir(exist_ok=True)
    with Journal(folder / "journals" / f"{name}.jsonl", 0, head) as journal:
        op = journal.number()
        if role in ("final", "observer"):
            journal.write(Polled(1, op, 1, {"other/5": [[3, None]]}))
            journal.write(EndsRead(Isolation.READ_COMMITTED.value, {"in/0": ReadEnd(0, 4, 1, 3)}))
        else:
            journal.write(Invoked("txn", 1, op, asked="commit", sends=[["in", "endpoint", 9, "in/0", 7]]))
            journal.write(Completed(Outcome.OK, "txn", 1, op, acks=[(0, 3)]))


def rows(folder: Path, table: str) -> list[dict[str, Any]]:
    """Return the rows of a table, without times and process ids."""
    stored: list[dict[str, Any]] = pq.read_table(folder / "history" / f"{table}.parquet").to_pylist()
    return [
        {
            name: cell
            for name, cell in row.items()
            if not name.endswith("_ns") and name not in ("pid", "call", "return")
        }
        for row in stored
    ]


def test_the_partitions_of_the_plan_have_the_first_numbers(tmp_path: Path) -> None:
    for name in NAMES:
        journal_of(tmp_path, name)
    tabulate(tmp_path, int(PLAN.run["id"]), PLAN.pipeline, PLAN.promises)
    partitions = {row["tp"]: (row["topic"], row["partition"]) for row in rows(tmp_path, "partitions")}
    assert partitions == {0: ("out", 0), 1: ("out", 1), 2: ("in", 0), 3: ("t", 0), 4: ("other", 5)}
    assert {row["tp"] for row in rows(tmp_path, "ends")} == {2}
    assert {row["tp"]: row["internal"] for row in rows(tmp_path, "partitions")} == {
        **dict.fromkeys(range(4), False),
        4: True,
    }


def test_operations_are_numbered_in_the_order_of_the_journals(tmp_path: Path) -> None:
    for name in NAMES:
        journal_of(tmp_path, name)
    tabulate(tmp_path, int(PLAN.run["id"]), PLAN.pipeline, PLAN.promises)
    assert [(row["op"], row["name"]) for row in rows(tmp_path, "ops")] == [
        (n, f"{name}:0") for n, name in enumerate(sorted(NAMES))
    ]


def test_an_error_leaves_no_tables(tmp_path: Path) -> None:
    path = tmp_path / "journals" / "final-read_committed.jsonl"
    path.parent.mkdir()
    with Journal(path, 0, JournalBegan(path.stem, role="final")) as journal:
        parts = PartWriter(journal, parts_folder(path))
        parts.extend("expected", 1, "no-stage", 0, 5, "endpoint", "out", 7, *[None] * 5, 0)
        parts.finish()
    with pytest.raises(UnreadableInput, match="no-stage"):
        tabulate(tmp_path, int(PLAN.run["id"]), PLAN.pipeline, PLAN.promises)
    assert not list((tmp_path / "history").iterdir())
