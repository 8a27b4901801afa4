"""A run of `txn` and its clients' history: what was planted in it is seen, as `check` of the store and of the file."""

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
Given = tuple[int, str, int]
"""A micro-operation that polled, a key, and the place of a record among those that it was given of it."""


@pytest.fixture(scope="module")
def run(place: Path) -> Result:
    return fencepost.run(
        workload="txn", nemesis="none", time_limit=15, seed=5, abort_share=0.1, store=str(place)
    )


class Told:
    """The history of a copy of a run, which can be written again as if the run had written it."""

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

    def given(self, event: Event) -> Iterator[Given]:
        for at, step in enumerate(event["value"]):
            if step[0] == "poll" and len(step) > 1:
                for key, records in step[1].items():
                    yield from ((at, key, n) for n in range(len(records)))


def read_each_other(told: Told) -> None:
    """Two transactions that were open together are each given what the other had sent."""
    able = [one for one in told.committed() if {step[0] for step in one["value"]} == {"send", "poll"}]
    first = able[len(able) // 2]
    other = next(one for one in able if one["process"] != first["process"] and one["index"] > first["index"])
    for reader, writer in ((first, other), (other, first)):
        _, key, (offset, value) = next(step for step in writer["value"] if step[0] == "send")
        poll = next(step for step in reader["value"] if step[0] == "poll")
        poll[1:] = [{**(poll[1] if len(poll) > 1 else {}), key: [[offset, value]]}]


def skip_a_record(told: Told) -> None:
    """A worker was not given one record of a key, between two that it was given."""
    for event in told.committed():
        for at, key, n in told.given(event):
            records = event["value"][at][1][key]
            if 0 < n < len(records) - 1:
                del records[n]
                return
    raise AssertionError("no poll gave three records of a key")


def go_back(told: Told) -> None:
    """A worker was given the last record of a key once more, in its next transaction that was given any of it."""
    last: dict[tuple[int, str], list[Any]] = {}
    for event in told.committed():
        for at, key, n in told.given(event):
            before = last.get((event["process"], key))
            if n == 0 and before is not None:
                event["value"][at][1][key].insert(0, before)
                return
        for at, key, n in told.given(event):
            last[event["process"], key] = event["value"][at][1][key][n]
    raise AssertionError("no worker was given records of one key twice")


def read_ones_own(told: Told) -> None:
    """A transaction is given what it has sent."""
    event = next(one for one in told.committed() if {step[0] for step in one["value"]} == {"send", "poll"})
    _, key, (offset, value) = next(step for step in event["value"] if step[0] == "send")
    poll = next(step for step in event["value"] if step[0] == "poll")
    poll[1:] = [{**(poll[1] if len(poll) > 1 else {}), key: [[offset, value]]}]


PLANTED: dict[str, tuple[Callable[[Told], None], str]] = {
    "circle": (read_each_other, "G1c"),
    "skip": (skip_a_record, "int-poll-skip"),
    "back": (go_back, "nonmonotonic-poll"),
    "own": (read_ones_own, "precommitted-read"),
}


@pytest.fixture(scope="module")
def judged(run: Result, place: Path) -> dict[str, Result]:
    """By what was planted: the verdict on the store, and (`-file`) on its history alone."""
    asked: dict[str, str] = {"run": run.folder, "run-file": f"{run.folder}/history.jsonl"}
    for n, name in enumerate((*PLANTED, "missing", "cut-off", "touched"), 1):
        asked[name] = str(numbered(run, place / f"planted-{name}", n))
    for name, (plant, _) in PLANTED.items():
        told = Told(Path(asked[name]))
        plant(told)
        told.write()
        asked[f"{name}-file"] = str(told.path)
    (Path(asked["missing"]) / "history.jsonl").unlink()
    for name, cut in (("cut-off", -50), ("touched", None)):
        path = Path(asked[name]) / "history.jsonl"
        path.write_text(path.read_text()[:cut] + ("" if cut else "\n"))
    return dict(zip(asked, fencepost.check(list(asked.values())), strict=True))


def numbered(run: Result, folder: Path, n: int) -> Path:
    """A copy of a run with a number of its own: those are judged together."""
    shutil.copytree(run.folder, folder, ignore=shutil.ignore_patterns("brokers", "workers", "*.html"))
    copy = Copy(folder)
    toml, old = (folder / "run.toml").read_text(), copy.rows("journals")[0]["run"]
    (folder / "run.toml").write_text(toml.replace(f"id = {old}", f"id = {n}"))
    for table in HISTORY | LOG:
        copy.renumber(table, n)
    return folder


def test_a_right_run_is_valid_and_cycles_were_looked_for(run: Result, judged: dict[str, Result]) -> None:
    for result in (run, judged["run"], judged["run-file"]):
        assert result.valid is True, result.explain()
        assert {"G1c", "G1c-realtime", "int-poll-skip"} <= set(result.verdict["checked"])
    coverage = run.verdict["coverage"]
    assert coverage["read within transactions"] and coverage["partitions given up"] and coverage["aborted"]
    assert "lost-input" in run.verdict["not_checked"] and "lost-write" in run.verdict["checked"]


@pytest.mark.parametrize("name", sorted(PLANTED))
def test_what_was_planted_is_found_in_the_run_and_in_its_history(
    name: str, judged: dict[str, Result]
) -> None:
    for result in (judged[name], judged[f"{name}-file"]):
        assert result.valid is False, result.explain()
        assert PLANTED[name][1] in result.anomalies, result.explain()
    cycles = {one for one in judged[name].anomalies if one.startswith("G")}
    assert cycles == {one for one in judged[f"{name}-file"].anomalies if one.startswith("G")}


@pytest.mark.parametrize("name", ["missing", "cut-off", "touched"])
def test_a_history_that_is_not_as_the_run_wrote_it_is_never_valid(
    name: str, judged: dict[str, Result]
) -> None:
    result = judged[name]
    assert result.valid is None, result.explain()
    assert "history-damaged" in result.reasons
