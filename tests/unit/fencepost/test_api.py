"""The public API: options become a command, and its lines become results."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import fencepost
from fencepost import api

pytestmark = pytest.mark.processes


def test_options_become_arguments_of_the_command():
    arguments = api.option_words(
        {"nemesis": ["kill-broker", "kill-worker"], "time_limit": 30, "seed": None, "broker": {"a.b": "1"},
         "spark_conf": {"spark.x": "y"}, "master": "local[1]"}
    )  # fmt: skip
    assert arguments == [
        *("--set", "nemesis=kill-broker,kill-worker", "--set", "time-limit=30", "--set", "broker.a.b=1"),
        *("--spark-conf", "spark.x=y", "--master", "local[1]"),
    ]


def test_blind_becomes_a_flag():
    assert [api.option_words({"blind": blind}) for blind in (True, False, None)] == [["--blind"], [], []]


def fake_command(monkeypatch, lines: str, status: int) -> None:
    code = f"import sys; print({lines!r}); sys.exit({status})"
    monkeypatch.setattr(api, "DEFAULT_COMMAND", (sys.executable, "-c", code))


@pytest.fixture
def run_folder(tmp_path, monkeypatch):
    """The folder `s` of a run with a report, in the working directory."""
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "report.html").touch()
    monkeypatch.chdir(tmp_path)


def test_a_line_of_the_command_becomes_a_result(monkeypatch, run_folder):
    fake_command(monkeypatch, '{"history": "s", "valid": true, "summary": "all well"}', 0)
    result = fencepost.run()
    assert (result.valid, result.exit_status, result.report) == (True, 0, Path("s/report.html"))
    result.assert_valid()


IGNORES_FIRST_SIGNAL = """
import signal, sys
signals = []
signal.signal(signal.SIGTERM, lambda *_: sys.exit(130) if signals else signals.append(1))
print("ready", flush=True)
while True:
    signal.pause()
"""


def test_a_run_that_does_not_end_gets_a_second_signal(monkeypatch):
    monkeypatch.setattr(api, "CHECK_TIMEOUT_S", 1.0)
    with subprocess.Popen(
        [sys.executable, "-c", IGNORES_FIRST_SIGNAL], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        api._end(process)
        assert process.wait(30) == 130


def test_replay_passes_its_options_to_the_command(monkeypatch, run_folder):
    calls: list[list[str]] = []
    monkeypatch.setattr(
        api,
        "_call",
        lambda arguments, timeout_s: calls.append(arguments) or [api.Result(True, 0, {}, Path())],
    )
    fencepost.replay("s")
    fencepost.replay("s", without_defect=True, store="other")
    assert calls == [
        ["replay", "--json", "--", "s"],
        ["replay", "--json", "--without-defect", "--store", "other", "--", "s"],
    ]


def test_an_external_history_has_no_report(monkeypatch):
    fake_command(monkeypatch, '{"history": "night.edn", "valid": true, "summary": "all well"}', 0)
    (result,) = fencepost.check("night.edn")
    assert (result.report, result.explain()) == (None, "valid: all well")


def test_an_invalid_verdict_is_a_readable_assertion_error(monkeypatch, run_folder):
    fake_command(
        monkeypatch,
        '{"history": "s", "valid": false, "summary": "2 inputs were lost", "anomalies": '
        '{"lost-input": {"count": 2, "allowed": false}, "G0": {"count": 9, "allowed": true}}}',
        1,
    )
    with pytest.raises(AssertionError) as error:
        fencepost.run().assert_valid()
    assert str(error.value) == "invalid: 2 inputs were lost\n  lost-input: 2\nreport: s/report.html"


def test_unknown_is_not_valid(monkeypatch):
    fake_command(
        monkeypatch,
        '{"history": "s", "valid": "unknown", "summary": "?", "unknown_because": [{"code": "x", "text": "why"}]}',
        3,
    )
    result = fencepost.run()
    assert (result.valid, result.exit_status) == (None, 3)
    with pytest.raises(AssertionError, match="unknown: "):
        result.assert_valid()


def test_each_history_has_its_own_exit_status(monkeypatch):
    fake_command(
        monkeypatch, '{"history": "a", "valid": false}\n{"history": "b", "valid": "unknown", "error": "e"}', 2
    )
    assert [result.exit_status for result in fencepost.check(["a", "b"])] == [1, 2]


def test_no_verdict_is_an_error():
    with pytest.raises(fencepost.FencepostFailed) as error:
        fencepost.run(workers="many")
    assert error.value.exit_status == 2


def test_check_passes_allowed_anomalies_to_the_command(monkeypatch):
    monkeypatch.setattr(api, "_call", lambda arguments, _: [arguments])
    (arguments,) = fencepost.check("night.edn", allow=["poll-skip", "G0"])
    assert arguments == ["check", "--json", "--allow", "poll-skip,G0", "--", "night.edn"]


def test_check_passes_the_file_of_a_page_to_the_command(monkeypatch):
    monkeypatch.setattr(api, "_call", lambda arguments, _: [arguments])
    (arguments,) = fencepost.check("night.edn", out=Path("page.html"))
    assert arguments == ["check", "--json", "--out", "page.html", "--", "night.edn"]


def test_the_message_of_a_failed_command_is_in_the_exception():
    with pytest.raises(fencepost.FencepostFailed, match="there is no fault") as error:
        fencepost.run(nemesis="kill-brocker")
    assert error.value.exit_status == 2
    assert "kill-broker" in str(error.value)


def test_an_exploration_is_valid_only_if_all_its_cases_were_tried(monkeypatch) -> None:
    cases = {"all": 9, "tried": 9, "right": 9}
    outcome = {"valid": True, "cases": cases, "findings": [], "not_in_it": ["x"], "folder": "s"}
    fake_command(monkeypatch, json.dumps(outcome), 0)
    fencepost.explore(client="java", programs=["CC", "AC"], members=True, limit=None).assert_valid()
    cases["tried"] = 8
    fake_command(monkeypatch, json.dumps(outcome), 0)
    with pytest.raises(AssertionError, match=r"valid: 9 all, 8 tried"):
        fencepost.explore().assert_valid()


def test_an_exploration_that_is_invalid_names_its_findings(monkeypatch) -> None:
    finding = {"request": "CC EndTxn#1", "anomalies": ["lost-input"], "smallest": "CC hold EndTxn#1 > end"}
    outcome = {
        "valid": False,
        "cases": {"all": 1, "tried": 1},
        "findings": [finding],
        "not_in_it": [],
        "folder": "s",
    }
    fake_command(monkeypatch, json.dumps(outcome), 1)
    explored = fencepost.explore()
    assert explored.anomalies == {"lost-input"} and explored.word == "invalid"
    with pytest.raises(AssertionError, match=r"CC EndTxn#1: lost-input, for example CC hold EndTxn#1 > end"):
        explored.assert_valid()
