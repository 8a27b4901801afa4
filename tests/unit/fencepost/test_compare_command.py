"""The command `fencepost compare`."""

import json
from pathlib import Path

import pytest

from fencepost.cli import run_command_line
from harness.results.suite import CellState
from harness.results.verdict import Validity
from tests.support.compared_runs import findings, seeded_cell, verdict, write_run, write_suite


@pytest.fixture(autouse=True)
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs `valid` and `invalid`, a run without verdict, and the suites `old` and `new`."""
    monkeypatch.chdir(tmp_path)
    store = Path("store")
    write_run(store / "valid", verdict())
    write_run(store / "invalid", verdict(Validity.INVALID, anomalies={"duplicate": findings(3)}))
    write_run(store / "unchecked", None)
    write_suite(store / "old", seeded_cell(1), seeded_cell(2, CellState.INVALID))
    write_suite(store / "new", seeded_cell(1))
    (store / "empty").mkdir()
    (store / "history.jsonl").write_text("{}\n")
    (store / "latest").symlink_to("valid")


def test_two_runs_are_compared_and_an_invalid_one_does_not_change_the_status(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert run_command_line(["compare", "store/valid", "store/invalid"]) == 0
    output = capfd.readouterr()
    assert output.out.splitlines()[:2] == ["A  store/valid (shop)", "B  store/invalid (shop)"]
    assert "verdict    valid  invalid\n" in output.out
    assert output.err == ""


def test_two_suites_are_compared(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["compare", "store/old", "store/new"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == "A  store/old (nightly, seed 42, began 2026-11-24T20:00:00+00:00)"
    assert any(line.split("  ")[0] == "seed 2" and line.endswith("no such run") for line in lines)


def test_json_is_one_object_on_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["compare", "store/valid", "store/invalid", "--json", "--out", "page.html"]) == 0
    output = capfd.readouterr()
    assert json.loads(output.out)["b"] == {"path": "store/invalid", "title": "shop", "runs": 1}
    assert output.err == "page     page.html\n"
    assert Path("page.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["store/valid", "store/empty"], "store/empty is neither a run (there is no run.toml) nor a suite"),
        (["store", "store/valid"], "store is neither a run"),
        (["store/history.jsonl", "store/valid"], "store/history.jsonl is neither a run"),
        (["store/valid", "absent"], "there is no absent"),
        (["store/valid", ""], "a path is empty"),
        (["store/valid", "store/old"], "store/old is a suite and store/valid is a run"),
        (["store/old", "store/valid"], "store/old is a suite and store/valid is a run"),
        (["store/valid", "store/latest"], "store/valid and store/latest are the same folder"),
        (["store/old", "store/../store/old"], "are the same folder"),
        (["store/valid", "store/unchecked"], "store/unchecked has no verdict yet: run `fencepost check"),
        (["store/valid", "store/invalid", "--out", "absent/page.html"], "--out absent/page.html cannot be"),
        (["store/valid"], "missing argument 'B'"),
    ],
)
def test_bad_input_is_one_sentence_and_status_2(
    arguments: list[str], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["compare", *arguments]) == 2
    output = capfd.readouterr()
    assert output.err.startswith("fencepost: ")
    assert message in output.err
    assert output.err.count("\n") == 1
    assert output.out == ""


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("store/valid/verdict.json", "{}"),
        ("store/valid/verdict.json", "no JSON"),
        ("store/valid/run.toml", "no TOML"),
        ("store/old/suite.json", "{}"),
    ],
)
def test_a_damaged_file_is_named(path: str, text: str, capfd: pytest.CaptureFixture[str]) -> None:
    Path(path).write_text(text)
    folder = path.rpartition("/")[0]
    other = "store/new" if folder == "store/old" else "store/invalid"
    assert run_command_line(["compare", other, folder]) == 2
    error = capfd.readouterr().err
    assert path.rpartition("/")[2] in error
    assert error.count("\n") == 1


def test_a_page_that_cannot_be_written_is_a_failure(capfd: pytest.CaptureFixture[str]) -> None:
    Path("dangling").symlink_to("absent/page.html")
    assert run_command_line(["compare", "store/valid", "store/invalid", "--out", "dangling"]) == 4
    assert "dangling could not be written: No such file or directory" in capfd.readouterr().err
