"""Known bugs: their files, and how often a bug was shown and its control was valid."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from fencepost import registry
from fencepost.api import Explored, FencepostFailed, Result
from fencepost.cli import run_command_line
from fencepost.commands import known_bugs
from fencepost.commands.known_bugs import CASE, BugCounts, BugRuns, KnownBug, describe, load, measure, names
from fencepost.exploration.outcome import parts_of
from fencepost.exploration.space import scope_of
from fencepost.runs.planning import draw_schedule
from harness.common.errors import ExitStatus, UsageError
from harness.settings.options import Options

PAGE = Path(__file__).resolve().parents[3] / "docs" / "known-bugs.md"
BUG = KnownBug(
    name="late",
    title="a late request",
    where="Kafka",
    since="Kafka 3",
    until="",
    link="https://example.org",
    bug={"nemesis": "late-end-txn"},
    control={"nemesis": "none"},
    anomalies=("lost-commit", "ghost-commit"),
    kafka=("4.3.1", "4.2.1"),
)
STUCK = KnownBug(**{**vars(BUG), "anomalies": (), "reason": "stalled"})


def fault(name: str = "late-end-txn", target: str = "EndTxn", *, acted: bool = True) -> dict[str, Any]:
    return {"fault": name, "target": target, "acted": acted}


def result(valid: bool | None, *anomalies: str, faults: list[dict[str, Any]] | None = None) -> Result:
    verdict = {
        "summary": "",
        "anomalies": {name: {"count": 1, "allowed": False} for name in anomalies},
        "faults": [fault()] if faults is None else faults,
        "unknown_because": [{"code": "stalled", "text": "a call"}] if valid is None else [],
    }
    return Result(valid, {True: 0, False: 1, None: 3}[valid], verdict, Path("store/late/1"))


def play(
    monkeypatch: pytest.MonkeyPatch, results: dict[str, list[Result | FencepostFailed]], **settings: Any
) -> tuple[BugCounts, list[str], list[dict[str, Any]]]:
    """Measure with these results, by the name of the run. Return the lines and the options of the runs as well."""
    started: list[dict[str, Any]] = []

    def run(**options: Any) -> Result:
        started.append(options)
        outcome = results[options["name"]].pop(0)
        if isinstance(outcome, FencepostFailed):
            raise outcome
        return outcome

    monkeypatch.setattr(known_bugs, "run", run)
    counts = BugCounts(BUG)
    lines = list(measure(counts, BugRuns(**settings), lambda text: None))
    return counts, lines, started


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("kind", ["bug", "control"])
def test_the_runs_of_each_known_bug_can_be_planned(name: str, kind: str) -> None:
    bug = load(name)
    if case := getattr(bug, kind).get(CASE):  # it is no run
        program, fault, _ = parts_of(case)
        assert scope_of([program], [fault])
        return
    for kafka in bug.kafka:
        options = Options().updated({"seed": 1, **getattr(bug, kind), "kafka": kafka})
        schedule = draw_schedule(options.validated(registry.known_names()), registry.pipeline_of(options))
        assert schedule.planned_faults or kind == "control"
        assert options.time_limit_s <= 30


def test_a_bug_that_is_a_case_is_explored_in_a_store_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    explored: list[dict[str, Any]] = []

    def explore(**options: Any) -> Explored:
        explored.append(options)
        wrong = options["client"] == "librdkafka"
        findings = [{"anomalies": ["lost-input"]}] if wrong else []
        return Explored(not wrong, {"all": 1}, findings, [], Path("store/x"))

    monkeypatch.setattr(known_bugs, "explore", explore)
    counts = BugCounts(load("late-offset-commit-forward"))
    lines = list(measure(counts, BugRuns(times=2, store="s"), lambda text: None))
    assert (str(counts.shown), str(counts.control)) == ("2 of 2", "2 of 2"), lines
    assert [str(options["store"]) for options in explored[::2]] == [
        f"s/{counts.bug.name}-{n}" for n in (1, 2)
    ]
    assert all(options["case"].startswith("BCRC hold ") for options in explored)


@pytest.mark.parametrize("name", names())
def test_each_known_bug_has_an_expected_verdict_and_a_control_that_differs(name: str) -> None:
    bug = load(name)
    assert bool(bug.anomalies) != bool(bug.reason)
    assert bug.bug != bug.control
    assert bug.title and bug.where and bug.since and bug.link.startswith("https://")


@pytest.mark.parametrize("name", names())
def test_each_known_bug_has_a_section_in_the_docs(name: str) -> None:
    bug = load(name)
    section = PAGE.read_text().split(f"## `{name}`\n")[1].split("\n## ")[0]
    assert bug.link in section and f"fencepost known-bugs {name}" in section
    for word in (*bug.anomalies, bug.reason):
        assert word in section


def test_the_table_of_the_page_has_the_facts_of_each_known_bug() -> None:
    rows = {
        cells[0].strip("`"): cells[1:]
        for line in PAGE.read_text().splitlines()
        if line.startswith("| `")
        for cells in [[cell.strip() for cell in line.strip("| ").split(" | ")]]
    }
    for name, cells in rows.items():
        bug = load(name)
        assert cells[:5] == [bug.title, bug.where, bug.since, bug.until or "not fixed", bug.expected]
    assert list(rows) == names()


def test_an_expected_anomaly_shows_the_bug() -> None:
    assert BUG.is_shown_by(result(False, "ghost-commit", "lost-write"))
    assert not BUG.is_shown_by(result(False, "lost-write"))
    assert not BUG.is_shown_by(result(True))
    assert not BUG.is_shown_by(result(None))


def test_an_expected_reason_of_an_unknown_run_shows_the_bug() -> None:
    assert STUCK.is_shown_by(result(None))
    assert not STUCK.is_shown_by(result(True)) and not STUCK.is_shown_by(result(False, "lost-commit"))


def test_a_run_in_which_a_fault_did_not_act_does_not_show_the_bug() -> None:
    idle = result(False, "lost-commit", faults=[fault("kill-worker"), fault("rule", "EndTxn", acted=False)])
    assert not BUG.is_shown_by(idle)
    assert "not shown, because a fault did not act: rule EndTxn" in describe(
        BUG, "bug", idle, as_expected=False
    )


def test_a_fault_that_is_injected_twice_needs_to_act_once() -> None:
    twice = result(False, "lost-commit", faults=[fault(), fault(acted=False)])
    assert BUG.is_shown_by(twice)


def test_the_last_line_counts_the_bug_and_its_control(monkeypatch: pytest.MonkeyPatch) -> None:
    results = {
        "late": [result(False, "lost-commit"), result(True)],
        "late-control": [result(True, faults=[]), result(True, faults=[])],
    }
    counts, lines, started = play(monkeypatch, results, times=2, seed=5, store="kept")
    assert str(counts) == "late: shown 1 of 2, control 2 of 2"
    assert counts.exit_status == ExitStatus.INVALID
    assert lines[0] == "bug 1: invalid, lost-commit: shown (store/late/1)"
    assert lines[1] == "control 1: valid: as expected (store/late/1)"
    assert "valid: not shown, expected: invalid, lost-commit or ghost-commit" in lines[2]
    assert [options["seed"] for options in started] == [5, 5, 6, 6]
    assert {options["store"] for options in started} == {"kept"}
    assert {options["kafka"] for options in started} == {"4.3.1"}


def test_all_verdicts_as_expected_end_with_status_0(monkeypatch: pytest.MonkeyPatch) -> None:
    results = {"late": [result(False, "lost-commit")], "late-control": [result(True, faults=[])]}
    counts, _, started = play(monkeypatch, results, kafka="4.2.1")
    assert counts.exit_status == ExitStatus.VALID
    assert [options["kafka"] for options in started] == ["4.2.1", "4.2.1"]


@pytest.mark.parametrize("control", [result(None), result(False, "lost-commit")])
def test_a_control_that_is_not_valid_is_not_as_expected(
    control: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = {"late": [result(False, "lost-commit")], "late-control": [control]}
    counts, lines, _ = play(monkeypatch, results)
    assert counts.exit_status == ExitStatus.INVALID and "expected: valid" in lines[1]


def test_a_run_without_a_verdict_is_reported_and_the_others_run(monkeypatch: pytest.MonkeyPatch) -> None:
    results = {"late": [FencepostFailed(4, "there is no Java")], "late-control": [result(True, faults=[])]}
    counts, lines, _ = play(monkeypatch, results)
    assert counts.exit_status == ExitStatus.FAILURE
    assert lines[0] == "bug 1: no verdict: there is no Java"
    assert str(counts) == "late: shown 0 of 1, control 1 of 1"


@pytest.mark.parametrize(("status", "error"), [(2, UsageError), (130, KeyboardInterrupt)])
def test_wrong_options_and_ctrl_c_end_the_command(
    status: int, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(error):
        play(monkeypatch, {"late": [FencepostFailed(status, "no")]})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["kafka-17754"], 'there is no known bug "kafka-17754"; did you mean "kafka-17754-'),
        (["kafka-17754-a", "--kafka", "3.9.2"], "kafka-17754-a can be shown on Kafka 4.4.0"),
        (["kafka-17754-a", "--times", "0"], "--times"),
    ],
)
def test_wrong_usage_is_one_sentence(
    arguments: list[str], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["known-bugs", *arguments]) == ExitStatus.USAGE
    text = capfd.readouterr().err
    assert message in text and text.count("\n") == 1


def test_a_bug_of_a_program_that_is_not_here_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command_line(["known-bugs", "kafkajs-abort"]) == ExitStatus.USAGE
    text = capfd.readouterr().err
    assert "the folder of a clone" in text and "examples/node/README.md" in text


def test_the_list_names_each_bug_with_its_expected_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["known-bugs"]) == ExitStatus.VALID
    text = capsys.readouterr().out
    for name in names():
        assert f"{name}: {load(name).title}" in text and load(name).expected in text


def test_the_command_ends_with_the_counts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        known_bugs, "run", lambda **options: result(options["name"].endswith("control"), "lost-commit")
    )
    monkeypatch.setattr("fencepost.commands.known_bugs.shared_spark", nullcontext)
    assert run_command_line(["known-bugs", "kafka-17754-a", "--times", "2"]) == ExitStatus.VALID
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "kafka-17754-a: shown 2 of 2, control 2 of 2"
