"""A sweep: its runs, and its table of outcomes."""

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


def findings(count: int, allowed: bool, **more: Any) -> dict[str, Any]:
    return {"count": count, "allowed": allowed, **more}


def test_each_step_of_each_workload_is_a_run_in_the_order_of_the_loop() -> None:
    points = plan_points(["at-least-once", "echo"], Options(seed=1))
    faults_of = {
        name: [point.fault for point in points if point.workload == name]
        for name in ("at-least-once", "echo")
    }
    assert faults_of["at-least-once"] == [
        *(f"kill-worker@{step}" for step in ("before-poll", "after-poll", "after-transform", "after-send")),
        "kill-worker@after-commit",
        *(f"pause-worker@{step}" for step in ("after-poll", "after-transform", "after-send")),
    ]
    assert (
        "kill-worker@while-committing" in faults_of["echo"]
        and "pause-worker@before-commit" in faults_of["echo"]
    )
    assert len(faults_of["echo"]) == len(set(faults_of["echo"]))


def test_a_run_is_as_long_as_its_fault_needs_without_a_limit() -> None:
    limits_s = {
        point.fault.partition("@")[0]: point.time_limit_s for point in plan_points(["echo"], Options(seed=1))
    }
    assert limits_s["kill-worker"] < limits_s["pause-worker"] <= 20
    assert {point.time_limit_s for point in plan_points(["echo"], Options(seed=1), 40.0)} == {40.0}


@pytest.mark.parametrize(
    ("result", "cell"),
    [
        (verdict(True), "nothing"),
        (verdict(True, anomalies={"reprocessed-input": findings(1_200, True)}), "reprocessed-input 1,200"),
        (verdict(False, anomalies={"lost-input": findings(3, False)}), "lost-input 3 (forbidden)"),
        (
            verdict(
                False,
                anomalies={"a": findings(3, False), "b": findings(1, False, because="a")},
                unknown_because=[],
            ),
            "a 3 (forbidden)",
        ),
        (verdict(True, anomalies={"w": findings(3, True, warning=True)}), "nothing"),
        (verdict(None, unknown_because=[{"text": "it did not act"}]), "unknown"),
    ],
)
def test_a_cell_lists_the_anomalies_and_marks_forbidden_ones(result: Result, cell: str) -> None:
    assert summarize(KILL, "exactly-once", result).cell == cell


def test_an_unknown_run_with_a_permitted_anomaly_is_unknown() -> None:
    outcome = summarize(
        KILL,
        "exactly-once",
        verdict(None, anomalies={"a": findings(1, True)}, unknown_because=[{"text": "it did not act"}]),
    )
    assert outcome.cell == "unknown" and outcome.reason == "it did not act"


OUTCOMES = [
    SweepOutcome(
        "at-most-once", "at-most-once", "kill-worker@after-commit", 0, 1, {"lost-input": findings(9, True)}
    ),
    SweepOutcome("echo", "exactly-once", "kill-worker@before-commit", 0, 1),
    SweepOutcome(
        "echo", "exactly-once", "kill-worker@after-commit", 3, reason="it did not act", store="runs/7"
    ),
]


def test_the_table_has_a_row_per_crash_point_and_a_column_per_workload() -> None:
    assert list(table(OUTCOMES)) == [
        "| crash point                 | at-most-once | exactly-once (echo) |",
        "| --------------------------- | ------------ | ------------------- |",
        "| `kill-worker@before-commit` | -            | nothing             |",
        "| `kill-worker@after-commit`  | lost-input 9 | unknown             |",
    ]
    assert list(remarks(OUTCOMES)) == ["echo, kill-worker@after-commit: it did not act (runs/7)"]


def test_the_exit_status_is_that_of_the_worst_run() -> None:
    assert status_of(OUTCOMES) == ExitStatus.UNKNOWN
    assert status_of(OUTCOMES[:2]) == ExitStatus.VALID


def test_a_failed_run_is_reported_and_the_others_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(**options: Any) -> Result:
        if options["nemesis"] == [KILL.fault]:
            raise FencepostFailed(4, "there is no Java")
        return verdict(True)

    monkeypatch.setattr(sweeping, "run", run)
    messages: list[str] = []
    outcomes = list(
        sweep([KILL, SweepPoint("echo", "kill-worker@after-poll", 12.0)], {"seed": 7}, messages.append)
    )
    assert [outcome.cell for outcome in outcomes] == ["failed", "nothing"]
    assert status_of(outcomes) == ExitStatus.FAILURE and "there is no Java" in next(remarks(outcomes))
    assert messages == ["1 of 2: echo, kill-worker@after-send", "2 of 2: echo, kill-worker@after-poll"]


def test_an_interrupted_sweep_starts_no_more_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(**_: Any) -> Result:
        raise FencepostFailed(ExitStatus.INTERRUPTED, "interrupted")

    monkeypatch.setattr(sweeping, "run", run)
    with pytest.raises(KeyboardInterrupt):
        list(sweep([KILL], {}, lambda _: None))


def test_each_run_has_the_options_of_the_sweep(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    runs: list[dict[str, Any]] = []

    def run(**options: Any) -> Result:
        runs.append(options)
        return verdict(True)

    monkeypatch.setattr(sweeping, "run", run)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setenv("FENCEPOST_SHARED", "none is started")
    arguments = ["sweep", "--workload", "echo,echo", "--seed", "7", "--set", "rate=50", "--json"]
    assert run_command_line(arguments) == ExitStatus.VALID
    assert len({options["nemesis"][0] for options in runs}) == len(runs) == 13
    assert all(
        (options["workload"], options["seed"], options["rate"], options["abort-share"])
        == ("echo", 7, "50", "0")
        for options in runs
    )
    outcomes = json.loads(capfd.readouterr().out)
    assert [outcome["fault"] for outcome in outcomes] == [options["nemesis"][0] for options in runs]


@pytest.mark.parametrize(
    ("arguments", "message"),
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
    arguments: list[str], message: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(sweeping, "run", lambda **_: pytest.fail("a run was started"))
    assert run_command_line(["sweep", *arguments]) == ExitStatus.USAGE
    output = capfd.readouterr()
    assert not output.out
    assert message in output.err
    assert len(output.err.strip().splitlines()) == 1
