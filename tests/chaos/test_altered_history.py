"""Anomalies that are planted in the history of a `txn` run are found, both in the run and in the history file alone."""

import json
import shutil
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import fencepost
from fencepost.api import Result
from harness.record.schema import HISTORY, LOG
from tests.support.alterations import Copy

Event = dict[str, Any]
ReceivedRecord = tuple[int, str, int]
"""The index of a micro-operation that polled, a key, and the index of a record among its records of this key."""


@pytest.fixture(scope="module")
def run(runs_folder: Path) -> Result:
    return fencepost.run(
        workload="txn", nemesis="none", time_limit=15, seed=5, abort_share=0.1, store=str(runs_folder)
    )


class RecordedHistory:
    """The history in a copy of a run. After a change, `write` makes it look as if the run had written it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "history.jsonl"
        self.events: list[Event] = [json.loads(line) for line in self.path.read_text().splitlines()]

    def write(self) -> None:
        self.path.write_text("".join(json.dumps(event) + "\n" for event in self.events))
        facts = json.loads((self.folder / "metadata.json").read_text())
        facts["history_crc"] = zlib.crc32(self.path.read_bytes())
        (self.folder / "metadata.json").write_text(json.dumps(facts))

    def committed(self) -> Iterator[Event]:
        return (event for event in self.events if event["f"] == "txn" and event["type"] == "ok")

    def received(self, event: Event) -> Iterator[ReceivedRecord]:
        for at, step in enumerate(event["value"]):
            if step[0] == "poll" and len(step) > 1:
                for key, records in step[1].items():
                    yield from ((at, key, n) for n in range(len(records)))


def read_uncommitted_sends_of_each_other(history: RecordedHistory) -> None:
    """Let each of two concurrent transactions read a record that the other had sent."""
    suitable = [
        event for event in history.committed() if {step[0] for step in event["value"]} == {"send", "poll"}
    ]
    first = suitable[len(suitable) // 2]
    other = next(
        event
        for event in suitable
        if event["process"] != first["process"] and event["index"] > first["index"]
    )
    for reader, writer in ((first, other), (other, first)):
        _, key, (offset, value) = next(step for step in writer["value"] if step[0] == "send")
        poll = next(step for step in reader["value"] if step[0] == "poll")
        poll[1:] = [{**(poll[1] if len(poll) > 1 else {}), key: [[offset, value]]}]


def skip_one_record(history: RecordedHistory) -> None:
    """Remove one record of a key between two others that a worker received."""
    for event in history.committed():
        for at, key, n in history.received(event):
            records = event["value"][at][1][key]
            if 0 < n < len(records) - 1:
                del records[n]
                return
    raise AssertionError("no poll returned three records of a key")


def read_a_record_again(history: RecordedHistory) -> None:
    """Let a worker receive the last record of a key again, in its next transaction that received records of the key."""
    last: dict[tuple[int, str], list[Any]] = {}
    for event in history.committed():
        for at, key, n in history.received(event):
            before = last.get((event["process"], key))
            if n == 0 and before is not None:
                event["value"][at][1][key].insert(0, before)
                return
        for at, key, n in history.received(event):
            last[event["process"], key] = event["value"][at][1][key][n]
    raise AssertionError("no worker received records of one key in two transactions")


def read_own_send(history: RecordedHistory) -> None:
    """Let a transaction read a record that it has sent itself."""
    event = next(
        event for event in history.committed() if {step[0] for step in event["value"]} == {"send", "poll"}
    )
    _, key, (offset, value) = next(step for step in event["value"] if step[0] == "send")
    poll = next(step for step in event["value"] if step[0] == "poll")
    poll[1:] = [{**(poll[1] if len(poll) > 1 else {}), key: [[offset, value]]}]


PLANTED: dict[str, tuple[Callable[[RecordedHistory], None], str]] = {
    "cycle": (read_uncommitted_sends_of_each_other, "G1c"),
    "skipped": (skip_one_record, "int-poll-skip"),
    "repeated": (read_a_record_again, "nonmonotonic-poll"),
    "own-send": (read_own_send, "precommitted-read"),
}


@pytest.fixture(scope="module")
def results(run: Result, runs_folder: Path) -> dict[str, Result]:
    """Results by planted anomaly: of the run, and (with the suffix `-file`) of its history alone."""
    paths: dict[str, str] = {"run": run.folder, "run-file": f"{run.folder}/history.jsonl"}
    for n, name in enumerate((*PLANTED, "missing", "cut-off", "touched"), 1):
        paths[name] = str(copy_with_number(run, runs_folder / f"planted-{name}", n))
    for name, (plant, _) in PLANTED.items():
        history = RecordedHistory(Path(paths[name]))
        plant(history)
        history.write()
        paths[f"{name}-file"] = str(history.path)
    (Path(paths["missing"]) / "history.jsonl").unlink()
    for name, cut in (("cut-off", -50), ("touched", None)):
        path = Path(paths[name]) / "history.jsonl"
        path.write_text(path.read_text()[:cut] + ("" if cut else "\n"))
    return dict(zip(paths, fencepost.check(list(paths.values())), strict=True))


def copy_with_number(run: Result, folder: Path, n: int) -> Path:
    """Copy a run and give it another number, because all copies are checked together."""
    shutil.copytree(run.folder, folder, ignore=shutil.ignore_patterns("brokers", "workers", "*.html"))
    copy = Copy(folder)
    toml, old = (folder / "run.toml").read_text(), copy.rows("journals")[0]["run"]
    (folder / "run.toml").write_text(toml.replace(f"id = {old}", f"id = {n}"))
    for table in HISTORY | LOG:
        copy.renumber(table, n)
    return folder


def test_a_correct_run_is_valid_and_was_checked_for_cycles(run: Result, results: dict[str, Result]) -> None:
    for result in (run, results["run"], results["run-file"]):
        assert result.valid is True, result.explain()
        assert {"G1c", "G1c-realtime", "int-poll-skip"} <= set(result.verdict["checked"])
    coverage = run.verdict["coverage"]
    assert coverage["read within transactions"] and coverage["partitions given up"] and coverage["aborted"]
    assert "lost-input" in run.verdict["not_checked"] and "lost-write" in run.verdict["checked"]


@pytest.mark.parametrize("name", sorted(PLANTED))
def test_a_planted_anomaly_is_found_in_the_run_and_in_its_history(
    name: str, results: dict[str, Result]
) -> None:
    for result in (results[name], results[f"{name}-file"]):
        assert result.valid is False, result.explain()
        assert PLANTED[name][1] in result.anomalies, result.explain()
    cycles = {anomaly for anomaly in results[name].anomalies if anomaly.startswith("G")}
    assert cycles == {anomaly for anomaly in results[f"{name}-file"].anomalies if anomaly.startswith("G")}


@pytest.mark.parametrize("name", ["missing", "cut-off", "touched"])
def test_a_run_whose_history_was_changed_is_unknown(name: str, results: dict[str, Result]) -> None:
    result = results[name]
    assert result.valid is None, result.explain()
    assert "history-damaged" in result.reasons
