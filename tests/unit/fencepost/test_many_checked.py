"""Many stored runs in one `check`: chunk by chunk, one Spark, each answer told as soon as it is there."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.checks import check as checking
from fencepost.checks import spark
from fencepost.checks.check import Results, check
from fencepost.checks.evidence import Evidence
from fencepost.checks.run_folders import NamedHistory
from fencepost.runs.progress import LineProgress
from harness.common.errors import EnvironmentFailure, FencepostError, UnreadableInput
from harness.results.verdict import Validity, Verdict


class Machine:
    """A judge to whom every run is valid, and how it was asked."""

    def __init__(self) -> None:
        self.started = 0
        self.jobs: list[list[str]] = []
        self.large: list[bool] = []
        self.fails_at: int | None = None

    @contextmanager
    def open_spark(self, master: str, conf: Any, *, large: bool) -> Iterator[object]:
        self.started += 1
        self.large.append(large)
        yield object()

    def judge(self, session: object, runs: Any, allow: Any, phase: Any) -> Results:
        if self.fails_at == len(self.jobs):
            raise EnvironmentFailure("Spark is gone")
        self.jobs.append([Path(run.folder).name for run in runs])
        phase("checks")
        return [Verdict(str(run.folder), "n", 1, Validity.VALID, "all is well") for run in runs]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()

    def opened(history: str, folder: Path) -> Any:
        if folder.name.startswith("bad"):
            raise UnreadableInput(f"{folder.name} is damaged")
        return Evidence(history, folder, SimpleNamespace(), None, ())  # type: ignore[arg-type]

    monkeypatch.setattr(checking, "open_evidence", opened)
    monkeypatch.setattr(checking, "decide_runs", made.judge)
    monkeypatch.setattr(checking, "split_into_chunks", lambda folders: [[n] for n in range(len(folders))])
    monkeypatch.setattr(spark, "open_spark", made.open_spark)
    return made


def checked(tmp_path: Path, *names: str) -> tuple[Results, list[tuple[int, str]]]:
    """What was told at the end, and what was found meanwhile."""
    told: Results = []
    found: list[tuple[int, str]] = []
    given = []
    for name in names:
        folder = tmp_path / name
        folder.mkdir()
        given.append(
            NamedHistory(name, folder) if name != "no-run" else NamedHistory(name, error="there is no no-run")
        )
    check(
        given,
        allow=frozenset(),
        master="local[1]",
        spark_conf={},
        progress=LineProgress(),
        on_end=told.extend,
        on_result=lambda n, answer: found.append((n, words(answer))),
    )
    return told, found


def words(answer: Verdict | FencepostError) -> str:
    return answer.summary if isinstance(answer, Verdict) else str(answer)


def test_each_chunk_is_a_job_of_one_spark_and_is_told_when_it_is_over(
    tmp_path: Path, machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    told, found = checked(tmp_path, "bad-1", "a", "no-run", "b", "bad-2", "c")
    assert machine.jobs == [["a"], ["b"], ["c"]]
    assert (machine.started, machine.large) == (1, [True])
    assert [words(one) for one in told] == [
        *("bad-1 is damaged", "all is well", "there is no no-run", "all is well", "bad-2 is damaged"),
        "all is well",
    ]
    assert [n for n, _ in found] == [2, 0, 1, 3, 4, 5]
    assert [one.history for one in told if isinstance(one, Verdict)] == ["a", "b", "c"]
    said = capsys.readouterr().err
    assert "checking 5 histories" in said and "runs 2 to 2 of 5: checks" in said


def test_what_was_judged_before_spark_was_lost_is_kept(tmp_path: Path, machine: Machine) -> None:
    machine.fails_at = 2
    with pytest.raises(EnvironmentFailure, match="Spark is gone"):
        checked(tmp_path, "a", "b", "c")
    assert [(tmp_path / name / "verdict.json").exists() for name in "abc"] == [True, True, False]


def test_runs_of_which_none_can_be_read_start_no_spark(tmp_path: Path, machine: Machine) -> None:
    told, _ = checked(tmp_path, "bad-1", "bad-2")
    assert len(told) == 2 and machine.started == 0


def test_nothing_asked_is_nothing_told(tmp_path: Path, machine: Machine) -> None:
    assert checked(tmp_path) == ([], []) and machine.started == 0
