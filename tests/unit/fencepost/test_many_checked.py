"""Many stored runs in one `check`: one Spark checks chunk after chunk, and each result is reported at once."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from fencepost.checks import check as checking
from fencepost.checks.check import Results, check
from fencepost.checks.evidence import Evidence
from fencepost.checks.run_folders import NamedHistory
from fencepost.cli import run_command_line
from harness.common.errors import EnvironmentFailure, FencepostError, UnreadableInput
from harness.common.progress import LineProgress
from harness.results.verdict import Validity, Verdict

ERRORS = {
    kind.__name__: kind("of\na file")
    for kind in (RecursionError, MemoryError, AssertionError, pa.ArrowException)
}


class FakeSpark:
    """A Spark for which every run is valid. It records its starts and jobs."""

    def __init__(self) -> None:
        self.started = 0
        self.jobs: list[list[str]] = []
        self.large: list[bool] = []
        self.fails_at: int | None = None

    @contextmanager
    def starting_spark(self, master: str, conf: Any, *, large: bool) -> Iterator[object]:
        self.started += 1
        self.large.append(large)
        yield SimpleNamespace(session=object)

    def check(self, session: object, runs: Any, allow: Any, phase: Any) -> Results:
        if self.fails_at == len(self.jobs):
            raise EnvironmentFailure("Spark is gone")
        self.jobs.append([Path(run.folder).name for run in runs])
        phase("checks")
        return [Verdict(str(run.folder), "n", 1, Validity.VALID.json, "all is well") for run in runs]


@pytest.fixture
def fake_spark(monkeypatch: pytest.MonkeyPatch) -> FakeSpark:
    fake = FakeSpark()

    def open_evidence(history: str, folder: Path) -> Any:
        if folder.name.startswith("bad"):
            raise UnreadableInput(f"{folder.name} is damaged")
        return Evidence(history, folder, SimpleNamespace(), None, ())  # type: ignore[arg-type]

    monkeypatch.setattr(checking, "open_evidence", open_evidence)
    monkeypatch.setattr(checking, "check_stored_runs", fake.check)
    monkeypatch.setattr(checking, "split_into_chunks", lambda folders: [[n] for n in range(len(folders))])
    monkeypatch.setattr(checking, "starting_spark", fake.starting_spark)
    return fake


def check_runs(tmp_path: Path, *names: str) -> tuple[Results, list[tuple[int, str]]]:
    """The results at the end, and the (index, text) of each result in the order in which they came."""
    results_in_order: list[tuple[int, str]] = []
    histories = []
    for name in names:
        folder = tmp_path / name
        folder.mkdir()
        histories.append(
            NamedHistory(name, folder) if name != "no-run" else NamedHistory(name, error="there is no no-run")
        )
    results = check(
        histories,
        allow=frozenset(),
        master="local[1]",
        spark_conf={},
        progress=LineProgress(),
        on_result=lambda n, result: results_in_order.append((n, text_of(result))),
    )
    return results, results_in_order


def text_of(result: Verdict | FencepostError) -> str:
    return result.summary if isinstance(result, Verdict) else str(result)


def test_each_chunk_is_a_job_of_one_spark_with_its_own_results(
    tmp_path: Path, fake_spark: FakeSpark, capsys: pytest.CaptureFixture[str]
) -> None:
    results, results_in_order = check_runs(tmp_path, "bad-1", "a", "no-run", "b", "bad-2", "c")
    assert fake_spark.jobs == [["a"], ["b"], ["c"]]
    assert (fake_spark.started, fake_spark.large) == (1, [True])
    assert [text_of(result) for result in results] == [
        *("bad-1 is damaged", "all is well", "there is no no-run", "all is well", "bad-2 is damaged"),
        "all is well",
    ]
    assert [n for n, _ in results_in_order] == [2, 0, 1, 3, 4, 5]
    assert [result.history for result in results if isinstance(result, Verdict)] == ["a", "b", "c"]
    progress = capsys.readouterr().err
    assert "checking 5 histories" in progress and "runs 2 to 2 of 5: checks" in progress


def test_verdicts_before_a_failure_of_spark_are_kept(tmp_path: Path, fake_spark: FakeSpark) -> None:
    fake_spark.fails_at = 2
    with pytest.raises(EnvironmentFailure, match="Spark is gone"):
        check_runs(tmp_path, "a", "b", "c")
    assert [(tmp_path / name / "verdict.json").exists() for name in "abc"] == [True, True, False]


def test_the_command_prints_each_verdict_when_it_is_known(
    tmp_path: Path, fake_spark: FakeSpark, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    printed: list[str] = []

    def check_and_look(*arguments: Any) -> Results:
        printed.append(capsys.readouterr().out)
        return fake_spark.check(*arguments)

    monkeypatch.setattr(checking, "check_stored_runs", check_and_look)
    folders = [str(make_run(tmp_path / name)) for name in ("a", "bad", "b", "c")]
    fake_spark.fails_at = 2
    assert run_command_line(["check", "--json", *folders, str(tmp_path / "gone")]) == 4
    printed.append(capsys.readouterr().out)
    names = [[Path(json.loads(line)["history"]).name for line in text.splitlines()] for text in printed]
    assert names == [[], ["a", "bad"], ["b"], ["gone"]]


def make_run(folder: Path) -> Path:
    folder.mkdir()
    (folder / "run.toml").write_text("")
    return folder


def test_an_unexpected_error_in_one_history_does_not_stop_the_others(
    tmp_path: Path, fake_spark: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_evidence = checking.open_evidence

    def fail(history: str, folder: Path) -> Evidence:
        if folder.name in ERRORS:
            raise ERRORS[folder.name]
        return open_evidence(history, folder)

    monkeypatch.setattr(checking, "open_evidence", fail)
    results, _ = check_runs(tmp_path, "a", *ERRORS, "b")
    assert fake_spark.jobs == [["a"], ["b"]]
    assert [text_of(result) for result in (results[0], results[-1])] == ["all is well", "all is well"]
    for name, result in zip(ERRORS, results[1:-1], strict=True):
        assert isinstance(result, UnreadableInput) and result.exit_status == 2
        assert text_of(result) == f"{tmp_path / name} cannot be read ({name}: of a file)"


def test_if_no_run_can_be_read_spark_is_not_started(tmp_path: Path, fake_spark: FakeSpark) -> None:
    results, _ = check_runs(tmp_path, "bad-1", "bad-2")
    assert len(results) == 2 and fake_spark.started == 0


def test_without_histories_there_are_no_results(tmp_path: Path, fake_spark: FakeSpark) -> None:
    assert check_runs(tmp_path) == ([], []) and fake_spark.started == 0
