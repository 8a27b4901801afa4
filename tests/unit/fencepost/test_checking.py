"""What `check` leaves of a stored run's verdict, and says of it."""

from pathlib import Path

import pytest

from fencepost.checks.check import CheckRequest, _save, _write_or_compare
from harness.common.errors import EnvironmentFailure, UnreadableInput
from harness.results.verdict import Validity, Verdict

VALID = Verdict("h", "h", 1, Validity.VALID, "nothing was found")
UNKNOWN = Verdict("h", "h", 1, Validity.UNKNOWN, "a table is gone")


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    """A run that was judged valid."""
    (tmp_path / "verdict.json").write_text(VALID.line())
    return tmp_path


def kept(folder: Path, verdict: Verdict, *allow: str, update: bool = False) -> Validity:
    """What is stored afterwards."""
    _write_or_compare(folder, verdict, CheckRequest([], [], frozenset(allow), update))
    return Verdict.load(folder / "verdict.json").valid


def test_a_verdict_that_differs_from_the_stored_one_is_said_and_not_written(
    judged: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert kept(judged, UNKNOWN) is Validity.VALID
    assert "says valid, and this check says unknown: `check --update`" in caplog.text


@pytest.mark.parametrize(("verdict", "allow"), [(VALID, []), (UNKNOWN, ["duplicate"])])
def test_of_the_same_verdict_and_of_what_the_caller_allows_nothing_is_said(
    judged: Path, caplog: pytest.LogCaptureFixture, verdict: Verdict, allow: list[str]
) -> None:
    assert kept(judged, verdict, *allow) is Validity.VALID
    assert not caplog.text


def test_a_stored_verdict_that_cannot_be_read_is_said(judged: Path, caplog: pytest.LogCaptureFixture) -> None:
    (judged / "verdict.json").write_text("{")
    _write_or_compare(judged, UNKNOWN, CheckRequest([], [], frozenset()))
    assert "verdict.json cannot be read: `check --update`" in caplog.text


def test_update_writes_it_anew(judged: Path) -> None:
    assert kept(judged, UNKNOWN, update=True) is Validity.UNKNOWN


def test_a_run_that_was_killed_gets_its_verdict(tmp_path: Path) -> None:
    assert kept(tmp_path, UNKNOWN) is Validity.UNKNOWN


def test_who_finds_a_verdict_finds_its_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill between the two leaves a run without a verdict, which is judged again."""
    there: list[bool] = []
    monkeypatch.setattr(
        "reports.html.page.write_report", lambda folder, *_: there.append((folder / "verdict.json").exists())
    )
    assert kept(tmp_path, UNKNOWN) is Validity.UNKNOWN
    assert there == [False]


def test_a_verdict_is_written_whole_or_not_at_all(judged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(EnvironmentFailure, match="No space left"):
        kept(judged, UNKNOWN, update=True)
    assert Verdict.load(judged / "verdict.json").valid is Validity.VALID


def test_what_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "verdict.json").mkdir()
    with pytest.raises(EnvironmentFailure, match=r"verdict\.json could not be written: Is a directory"):
        kept(tmp_path, UNKNOWN, update=True)


def test_one_that_cannot_be_kept_is_the_answer_and_stops_no_other(judged: Path) -> None:
    asked = CheckRequest([], [], frozenset(), update=True)
    (judged / "other" / "verdict.json").mkdir(parents=True)
    answers = [_save(folder, UNKNOWN, asked) for folder in (judged / "other", judged)]
    assert isinstance(answers[0], EnvironmentFailure) and answers[1] is UNKNOWN
    gone = UnreadableInput("gone")
    assert _save(judged, gone, asked) is gone
