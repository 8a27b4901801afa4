"""A sweep: which runs it is made of, and how it tells what came of them."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from fencepost.api import FencepostFailed, Result
from fencepost.cli import run_command_line
from fencepost.runs import sweep as sweeping
from fencepost.runs.sweep import (
    SweepOutcome,
    SweepPoint,
    plan_points,
    remarks,
    status_of,
    summarize,
    sweep,
    table,
)
from harness.common.errors import ExitStatus
from harness.settings.options import Options

KILL = SweepPoint("echo", "kill-worker@after-send", 12.0)


def verdict(valid: bool | None, **more: Any) -> Result:
    status = {True: 0, False: 1, None: 3}[valid]
    body = {"anomalies": {}, "faults": [{"acted": True}], **more}
    return Result(valid, status, body, Path("runs/echo"))


def found(count: int, allowed: bool, **more: Any) -> dict[str, Any]:
    return {"count": count, "allowed": allowed, **more}


def test_each_step_of_each_workload_is_a_run_of_its_own_in_the_order_of_the_loop() -> None:
    asked = plan_points(["at-least-once", "echo"], Options(seed=1))
    of = {name: [one.fault for one in asked if one.workload == name] for name in ("at-least-once", "echo")}
    assert of["at-least-once"] == [
        *(f"kill-worker@{step}" for step in ("before-poll", "after-poll", "after-transform", "after-send")),
        "kill-worker@after-commit",
        *(f"pause-worker@{step}" for step in ("after-poll", "after-transform", "after-send")),
    ]
    assert "kill-worker@while-committing" in of["echo"] and "pause-worker@before-commit" in of["echo"]
    assert len(of["echo"]) == len(set(of["echo"]))


def test_a_run_is_as_long_as_its_fault_needs_unless_told() -> None:
    own = {one.fault.partition("@")[0]: one.time_limit_s for one in plan_points(["echo"], Options(seed=1))}
    assert own["kill-worker"] < own["pause-worker"] <= 20
    assert {one.time_limit_s for one in plan_points(["echo"], Options(seed=1), 40.0)} == {40.0}


@pytest.mark.parametrize(
    ("result", "cell"),
    [
        (verdict(True), "nothing"),
        (verdict(True, anomalies={"reprocessed-input": found(1_200, True)}), "reprocessed-input 1,200"),
        (verdict(False, anomalies={"lost-input": found(3, False)}), "lost-input 3 (forbidden)"),
        (
            verdict(
                False, anomalies={"a": found(3, False), "b": found(1, False, because="a")}, unknown_because=[]
            ),
            "a 3 (forbidden)",
        ),
        (verdict(True, anomalies={"w": found(3, True, warning=True)}), "nothing"),
        (verdict(None, unknown_because=[{"text": "it did not act"}]), "unknown"),
    ],
)
def test_a_cell_says_what_was_found_and_whether_it_is_permitted(result: Result, cell: str) -> None:
    assert summarize(KILL, "exactly-once", result).cell == cell


def test_an_unknown_run_that_found_something_permitted_is_unknown_all_the_same() -> None:
    told = summarize(
        KILL,
        "exactly-once",
        verdict(None, anomalies={"a": found(1, True)}, unknown_because=[{"text": "it did not act"}]),
    )
    assert told.cell == "unknown" and told.reason == "it did not act"


OUTCOMES = [
    SweepOutcome(
        "at-most-once", "at-most-once", "kill-worker@after-commit", 0, 1, {"lost-input": found(9, True)}
    ),
    SweepOutcome("echo", "exactly-once", "kill-worker@before-commit", 0, 1),
    SweepOutcome(
        "echo", "exactly-once", "kill-worker@after-commit", 3, reason="it did not act", store="runs/7"
    ),
]


def test_the_table_has_a_row_for_each_point_and_a_column_for_each_guarantee() -> None:
    assert list(table(OUTCOMES)) == [
        "| crash point                 | at-most-once | exactly-once (echo) |",
        "| --------------------------- | ------------ | ------------------- |",
        "| `kill-worker@before-commit` | -            | nothing             |",
        "| `kill-worker@after-commit`  | lost-input 9 | unknown             |",
    ]
    assert list(remarks(OUTCOMES)) == ["echo, kill-worker@after-commit: it did not act (runs/7)"]


def test_the_worst_run_gives_the_status() -> None:
    assert status_of(OUTCOMES) == ExitStatus.UNKNOWN
    assert status_of(OUTCOMES[:2]) == ExitStatus.VALID


def test_a_run_that_fails_is_told_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(**options: Any) -> Result:
        if options["nemesis"] == [KILL.fault]:
            raise FencepostFailed(4, "there is no Java")
        return verdict(True)

    monkeypatch.setattr(sweeping, "run", run)
    said: list[str] = []
    told = list(sweep([KILL, SweepPoint("echo", "kill-worker@after-poll", 12.0)], {"seed": 7}, said.append))
    assert [one.cell for one in told] == ["failed", "nothing"]
    assert status_of(told) == ExitStatus.FAILURE and "there is no Java" in next(remarks(told))
    assert said == ["1 of 2: echo, kill-worker@after-send", "2 of 2: echo, kill-worker@after-poll"]


def test_a_sweep_that_is_interrupted_runs_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(**_: Any) -> Result:
        raise FencepostFailed(ExitStatus.INTERRUPTED, "interrupted")

    monkeypatch.setattr(sweeping, "run", run)
    with pytest.raises(KeyboardInterrupt):
        list(sweep([KILL], {}, lambda _: None))


def test_each_run_has_the_options_of_the_sweep(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    asked: list[dict[str, Any]] = []

    def run(**options: Any) -> Result:
        asked.append(options)
        return verdict(True)

    monkeypatch.setattr(sweeping, "run", run)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setenv("FENCEPOST_SHARED", "none is started")
    words = ["sweep", "--workload", "echo,echo", "--seed", "7", "--set", "rate=50", "--json"]
    assert run_command_line(words) == ExitStatus.VALID
    assert len({one["nemesis"][0] for one in asked}) == len(asked) == 13
    assert all(
        (one["workload"], one["seed"], one["rate"], one["abort-share"]) == ("echo", 7, "50", "0")
        for one in asked
    )
    told = json.loads(capfd.readouterr().out)
    assert [one["fault"] for one in told] == [one["nemesis"][0] for one in asked]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--workload", "ecko"], 'there is no workload "ecko"; did you mean "echo"?'),
        (["--workload", ""], "there is no workload"),
        (["--time-limit", "5"], "in 5 s: choose --time-limit"),
        (["--time-limit", "soon"], "time-limit must be"),
        (["--set", "nemesis=partition"], "a sweep chooses nemesis itself"),
        (["--set", "no"], "KEY=VALUE"),
        (["--client", "jav"], '"java"'),
        (["--set", "txn-sise=3"], "txn-size"),
        (["now"], "now"),
    ],
)
def test_wrong_usage_is_one_sentence_and_status_2(
    arguments: list[str], words: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(sweeping, "run", lambda **_: pytest.fail("a run was started"))
    assert run_command_line(["sweep", *arguments]) == ExitStatus.USAGE
    told = capfd.readouterr()
    assert not told.out
    assert words in told.err
    assert len(told.err.strip().splitlines()) == 1
