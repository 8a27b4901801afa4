"""The control of a run: the same run without faults."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from fencepost.checks.evidence import Evidence
from fencepost.runs import control
from harness.common.errors import UsageError
from harness.common.progress import Progress
from harness.results.conclusions import ControlRun
from harness.results.reasons import Reason, ReasonCode
from harness.results.run_metadata import RunMetadata
from harness.results.verdict import Validity, Verdict
from harness.settings.options import Options
from harness.settings.run_file import StoredPlan
from tests.support.synthetic_store import make_verdict

OPTIONS = Options(seed=3, nemesis=("kill-worker",), rule=("api=EndTxn,nth=1,action=drop",), name="mine")


class Silent(Progress):
    def phase(self, name: str) -> None: ...

    def say(self, text: str) -> None: ...


def controlled(monkeypatch: pytest.MonkeyPatch, options: Options, verdict: Verdict) -> tuple[Path, Options]:
    """Return the folder of the control, and the options that it ran with."""
    ran: list[Options] = []

    def run(own: Options, progress: Progress, **more: Any) -> tuple[Verdict, Path]:
        ran.append(own)
        return verdict, Path("store/mine-control/1")

    monkeypatch.setattr(control, "run", run)
    folder = control.run_control(options, Silent())
    return folder, ran[0]


def test_a_control_is_the_same_without_faults_under_its_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    folder, own = controlled(monkeypatch, OPTIONS, make_verdict(Validity.VALID))
    assert own == replace(OPTIONS, nemesis=("none",), rule=(), name="mine-control")
    assert folder == Path("store/mine-control/1")


def test_a_control_without_a_name_has_that_of_its_workload(monkeypatch: pytest.MonkeyPatch) -> None:
    _, own = controlled(monkeypatch, replace(OPTIONS, name=None), make_verdict(Validity.VALID))
    assert own.name == "shop-control"


def test_a_run_without_faults_has_no_control(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="is its own control"):
        controlled(monkeypatch, Options(nemesis=("none",)), make_verdict(Validity.VALID))


def test_an_interrupted_control_is_not_followed_by_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted = make_verdict(
        Validity.UNKNOWN, unknown_because=[Reason(ReasonCode.INTERRUPTED, "the run was interrupted")]
    )
    with pytest.raises(KeyboardInterrupt):
        controlled(monkeypatch, OPTIONS, interrupted)


def evidence(folder: Path, path: str | None) -> Evidence:
    return Evidence("h", folder, StoredPlan(Options(), {}, [], {}), RunMetadata(control=path), ())


def test_a_verdict_has_the_verdict_of_its_control(tmp_path: Path) -> None:
    stored = make_verdict(Validity.INVALID)
    for name in ("mine", "mine-control"):
        (tmp_path / name).mkdir()
    stored.save(tmp_path / "mine-control" / "verdict.json")
    bad = {name: each.count for name, each in stored.anomalies.items() if not each.allowed}
    assert evidence(tmp_path / "mine", "../mine-control").control == ControlRun(
        "../mine-control", False, stored.summary, bad
    )


def test_a_control_that_was_removed_is_none(tmp_path: Path) -> None:
    assert evidence(tmp_path, "../gone").control is None
    assert evidence(tmp_path, None).control is None
    assert structs.replace(RunMetadata(), control="x").control == "x"
