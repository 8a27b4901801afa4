"""Events are read as they were written. A line that is not an event counts as a missing line."""

import json
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from harness.model.pipeline import StageSpec
from harness.model.vocabulary import Outcome
from harness.record.events import (
    FIELD_CHECKS,
    Assigned,
    Completed,
    EndInvoked,
    EndsRead,
    ErrorNoted,
    Event,
    Invoked,
    JournalBegan,
    JournalEnded,
    NotAnEvent,
    PartWritten,
    Polled,
    ReadEnd,
    parse,
)
from harness.record.journal import Journal, JournalContents, read_events
from harness.record.naming import PartitionIds
from harness.record.tables import Tabulator

EVENTS: tuple[Event, ...] = (
    JournalEnded(3),
    Invoked("txn", 1, 0, asked="commit", sends=[["out", "s", 9, "in/0", 7]], claims={"in/0": [7, 8]}),
    Invoked("kill-broker", -1, 0, target="broker 1", parameters={"hold": 2}),
    EndInvoked("abort", 0, [[2, 41], None]),
    Completed(Outcome.INFO, "txn", 1, 0, error="fenced", fenced=True),
    Polled(1, 2, 5, {"in/0": [[7, "f.0:0:1"]]}),
    Assigned(1, False, ["in/0"]),
    Assigned(1, True, ["in/0", "in/1"], [7, None]),
    EndsRead("read_committed", {"in/0": ReadEnd(0, 8, 8, None)}, errors=2),
    PartWritten("polls", "0-polls.arrow", 5, 7),
    ErrorNoted(op=1, retried="no leader"),
)


def test_every_field_of_an_event_has_a_check() -> None:
    """Only `type` has no check, because it selects the kind of event."""
    named = {field.name for kind in {*map(type, EVENTS), JournalBegan} for field in fields(kind)}
    assert named - FIELD_CHECKS.keys() == {"type"}


def test_only_a_poll_of_the_type_ok_has_returned_records() -> None:
    line = {"type": "fail", "f": "poll", "process": 1, "op": 2, "call": 5, "records": {"in/0": [[7, None]]}}
    assert isinstance(parse(line | {"type": "ok"}), Polled)
    assert not isinstance(parse(line), Polled)


def test_every_kind_of_event_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "shop-1.0.jsonl"
    with Journal(path, 5, JournalBegan("shop-1.0", role="worker", stage="shop")) as journal:
        for event in EVENTS:
            journal.write(event)
    contents = JournalContents("shop-1.0", 0)
    began, *events, ended = [line.event for line in read_events(path, contents)]
    assert events == list(EVENTS)
    assert isinstance(began, JournalBegan)
    assert (began.role, began.stage, began.pid is not None) == ("worker", "shop", True)
    assert ended == JournalEnded(0)
    assert (contents.torn, contents.missing) == (0, 0)
    assert {type(event) for event in EVENTS} | {JournalBegan} == set(Event.__subclasses__())


def test_a_line_leaves_out_fields_with_their_default() -> None:
    assert Completed(Outcome.OK, "txn", 1, 4).body() == {"type": "ok", "f": "txn", "process": 1, "op": 4}
    assert Polled(1, 2, 5).body() == {"type": "ok", "f": "poll", "process": 1, "op": 2, "call": 5}


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_a_line_without_a_required_field_is_no_event(event: Event) -> None:
    line = json.loads(json.dumps(event.body(), default=vars))
    assert parse(line | {"later": 1}) == event
    needed = [field.name for field in fields(event) if field.default is MISSING]
    for name in needed:
        without = {key: value for key, value in line.items() if key != name}
        with pytest.raises(NotAnEvent):
            parse(without)


@pytest.mark.parametrize(
    "line", [{}, {"type": "maybe"}, {"type": None}, {"type": "ends", "isolation": "x", "ends": {"in/0": 3}}]
)
def test_a_line_that_is_no_event_counts_as_missing(line: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"index": n, "time": 0, **line}) + "\n" for n in range(2)))
    contents = JournalContents("a", 0)
    assert list(read_events(path, contents)) == []
    assert contents.missing == 2


@pytest.mark.parametrize("sends", [[["out"]], [["out", "s", 1, "in/0"]], 3])
def test_an_event_with_incomplete_sends_counts_as_missing(sends: object, tmp_path: Path) -> None:
    invoke = {"index": 1, "time": 1, "type": "invoke", "f": "txn", "process": 1, "op": 0, "sends": sends}
    done = {"index": 2, "time": 2, "type": "ok", "f": "txn", "process": 1, "op": 0}
    assert count_missing(tmp_path, BEGIN, invoke, done) == 1


BEGIN = {"index": 0, "time": 0, "type": "begin", "journal": "w", "role": "worker", "stage": "s"}
INVOKE = {"index": 1, "time": 1, "type": "invoke", "f": "txn", "process": 1, "op": 0, "asked": "commit"}
SENDS = [["out", "s", 1, "in/0", 7]]
OK = {"index": 2, "time": 2, "type": "ok", "f": "txn", "process": 1, "op": 0, "acks": [[0, 3]]}


def count_missing(folder: Path, *written: dict[str, object]) -> int:
    """Return how many lines of a journal with these lines count as missing."""
    path = folder / "w.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in written))
    Tabulator(7, (StageSpec("s", ("in",), "g"),), PartitionIds()).write([path], folder / "history")
    (row,) = pq.read_table(folder / "history" / "journals.parquet").to_pylist()
    return int(row["missing_lines"])


@pytest.mark.parametrize(
    ("begin", "invoke", "ok", "count"),
    [
        ({}, {}, {}, 0),
        ({"stage": "zz"}, {}, {}, 1),
        ({"role": "observer"}, {}, {}, 1),
        ({"role": "worker", "stage": None}, {}, {}, 1),
        ({}, {"f": "zzz"}, {}, 1),
        ({}, {"op": -5}, {}, 1),
        ({}, {"op": 2**63}, {}, 1),
        ({}, {"process": "a"}, {}, 1),
        ({}, {"time": 10**30}, {}, 1),
        ({}, {"claims": {"in/0": [1]}}, {}, 1),
        ({}, {"claims": {"in": [1, 2]}}, {}, 1),
        ({}, {"sends": "abc"}, {}, 1),
        ({}, {"sends": None}, {}, 1),
        ({}, {}, {"acks": [[2**40, 1]]}, 1),
        ({}, {"sends": []}, {}, 1),  # more acknowledgements than sends
        ({}, {}, {"acks": [None]}, 1),  # the outcome is ok, but a send has no acknowledgement
        ({}, {}, {"acks": "zz"}, 1),
        ({}, {"asked": "abort"}, {"type": "fail", "acks": [None]}, 0),
    ],
)
def test_a_line_that_no_process_writes_counts_as_missing(
    begin: dict[str, object], invoke: dict[str, object], ok: dict[str, object], count: int, tmp_path: Path
) -> None:
    assert count_missing(tmp_path, BEGIN | begin, {**INVOKE, "sends": SENDS} | invoke, OK | ok) == count
