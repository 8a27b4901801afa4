"""How `check` compares its verdict with the stored one, and saves it."""

from pathlib import Path

import pytest

from fencepost.checks.check import CheckRequest, _save, _write_or_compare
from harness.common.errors import EnvironmentFailure, UnreadableInput
from harness.results.verdict import Validity, Verdict

VALID = Verdict("h", "h", 1, Validity.VALID.json, "nothing was found")
UNKNOWN = Verdict("h", "h", 1, Validity.UNKNOWN.json, "a table is gone")


@pytest.fixture
def checked_run(tmp_path: Path) -> Path:
    """A stored run with the verdict valid."""
    (tmp_path / "verdict.json").write_text(VALID.line())
    return tmp_path


def validity_after(folder: Path, verdict: Verdict, *allow: str, update: bool = False) -> Validity:
    """Save a verdict as `check` does. Return the validity that is stored then."""
    _write_or_compare(folder, verdict, CheckRequest([], [], frozenset(allow), update))
    return Verdict.load(folder / "verdict.json").validity


def test_a_verdict_that_differs_from_the_stored_one_is_logged_and_not_written(
    checked_run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert validity_after(checked_run, UNKNOWN) is Validity.VALID
    assert "says valid, and this check says unknown: `check --update`" in caplog.text


@pytest.mark.parametrize(("verdict", "allow"), [(VALID, []), (UNKNOWN, ["duplicate"])])
def test_an_equal_verdict_and_one_with_allowed_anomalies_are_not_logged(
    checked_run: Path, caplog: pytest.LogCaptureFixture, verdict: Verdict, allow: list[str]
) -> None:
    assert validity_after(checked_run, verdict, *allow) is Validity.VALID
    assert not caplog.text


def test_a_stored_verdict_that_cannot_be_read_is_logged(
    checked_run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (checked_run / "verdict.json").write_text("{")
    _write_or_compare(checked_run, UNKNOWN, CheckRequest([], [], frozenset()))
    assert "verdict.json cannot be read: `check --update`" in caplog.text


def test_update_replaces_the_stored_verdict(checked_run: Path) -> None:
    assert validity_after(checked_run, UNKNOWN, update=True) is Validity.UNKNOWN


def test_a_run_without_a_verdict_gets_one(tmp_path: Path) -> None:
    assert validity_after(tmp_path, UNKNOWN) is Validity.UNKNOWN


def test_the_report_is_written_before_the_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a kill between the two, the run has no verdict, so it is checked again."""
    existed: list[bool] = []
    monkeypatch.setattr(
        "fencepost.checks.run_report.write_report",
        lambda folder, *_: existed.append((folder / "verdict.json").exists()),
    )
    assert validity_after(tmp_path, UNKNOWN) is Validity.UNKNOWN
    assert existed == [False]


def test_a_verdict_is_written_completely_or_not_at_all(
    checked_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(EnvironmentFailure, match="No space left"):
        validity_after(checked_run, UNKNOWN, update=True)
    assert Verdict.load(checked_run / "verdict.json").validity is Validity.VALID


def test_a_verdict_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "verdict.json").mkdir()
    with pytest.raises(EnvironmentFailure, match=r"verdict\.json could not be written: Is a directory"):
        validity_after(tmp_path, UNKNOWN, update=True)


def test_a_verdict_that_cannot_be_saved_is_an_error_of_that_run_alone(checked_run: Path) -> None:
    request = CheckRequest([], [], frozenset(), update=True)
    (checked_run / "other" / "verdict.json").mkdir(parents=True)
    results = [_save(folder, UNKNOWN, request) for folder in (checked_run / "other", checked_run)]
    assert isinstance(results[0], EnvironmentFailure) and results[1] is UNKNOWN
    unreadable = UnreadableInput("gone")
    assert _save(checked_run, unreadable, request) is unreadable
