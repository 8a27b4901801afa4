"""A worker that waits in a call for ever is stalled: it is said in what, since when, and who should answer."""

from pathlib import Path

import pytest

from harness.errors import EnvironmentFailure
from harness.runner.quiescence import Patience, quiesce
from tests.support.fake_run import PIPELINE, FakeEnds, FakeRun, Script, fake_run

SOON = Patience(in_sync_s=0.2, drain_s=0.4, clean_up_s=0.2, reads_s=3.0, every_s=0.01)
WAITS = 'report(ready=True)\nreport(waits="{call}", since_ns=1)\n{back}\nwhile True: time.sleep(600)'


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.runner.processes.STOP_TIMEOUT_S", 0.3)


def reasons(run: FakeRun) -> list[tuple[str, str, str]]:
    run.processes.await_ready([run.processes.start_worker("s", "s-1")])
    quiesce(PIPELINE, run.context, FakeEnds(), run.run_log, SOON)
    return [(one.code, one.subject, one.text) for one in run.run_log.evidence_problems]


def script(call: str, back: str = "") -> Script:
    return Script(WAITS.replace("{call}", call).replace("{back}", back))


@pytest.mark.parametrize(
    ("call", "whom"),
    [
        ("send_offsets_to_transaction", "the coordinator of its group g is broker"),
        ("commit_transaction", "the coordinator of its transactional id s-1 is broker"),
    ],
)
def test_what_waits_for_whom_is_said(tmp_path: Path, call: str, whom: str) -> None:
    with fake_run(tmp_path, script(call)) as run:
        ((code, subject, text),) = reasons(run)
    assert (code, subject) == ("stalled", "s-1.0")
    assert f"worker s-1.0 waits in {call} since" in text and whom in text


def test_a_call_that_came_back_is_not_to_blame(tmp_path: Path) -> None:
    with fake_run(tmp_path, script("commit_transaction", "report(since_ns=0)")) as run:
        ((code, _, _),) = reasons(run)
    assert code == "did-not-end"


def test_a_cluster_that_cannot_say_who_coordinates_does_not_hide_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fake_run(tmp_path, script("send_offsets_to_transaction")) as run:

        def nobody(group: str) -> int:
            raise EnvironmentFailure("nobody answers")

        monkeypatch.setattr(run.cluster, "group_coordinator", nobody)
        ((code, _, text),) = reasons(run)
    assert code == "stalled" and "nobody could say" in text
