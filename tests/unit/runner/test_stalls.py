"""A worker that waits in a call for ever is stalled: it is said in what, since when, and who should answer."""

from pathlib import Path

import pytest

from harness.common.errors import EnvironmentFailure
from harness.common.waiting import wait_for
from harness.model.vocabulary import WorkerStep
from harness.runner.final_state import DrainTimeouts, quiesce
from harness.runner.stalls import update_stalls
from tests.support.fake_run import PIPELINE, FakeEnds, FakeRun, Script, fake_run

SOON = DrainTimeouts(in_sync_s=0.2, drain_s=0.4, clean_up_s=0.2, reads_s=3.0, every_s=0.01)
WAITS = 'report(ready=True)\nreport(slow_call="{call}", slow_call_since_ns=1)\n{back}\nwhile True: time.sleep(600)'


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.runner.member.STOP_TIMEOUT_S", 0.3)


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
    assert f"worker s-1.0 has waited in {call} for" in text and whom in text


def test_a_call_that_came_back_is_not_to_blame(tmp_path: Path) -> None:
    with fake_run(tmp_path, script("commit_transaction", "report(slow_call_since_ns=0)")) as run:
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
    assert code == "stalled" and "its coordinator is not known now" in text


COMES_BACK = """
report(ready=True, slow_call="init_transactions", slow_call_since_ns=1)
for command in commands:
    if command.get("arm"):
        report(slow_call_since_ns=0, step=command["arm"])
    if command.get("stop"):
        break
"""


def test_a_call_that_comes_back_late_is_a_warning(tmp_path: Path) -> None:
    with fake_run(tmp_path, Script(COMES_BACK)) as run:
        worker = run.processes.start_worker("s", "s-1")
        run.processes.await_ready([worker])
        for _ in range(2):
            update_stalls(run.context, run.run_log)
        (told,) = run.progress.said
        assert "worker s-1.0 has waited in init_transactions for" in told
        run.processes.wait_at_step(worker, WorkerStep.AFTER_POLL, 5)
        quiesce(PIPELINE, run.context, FakeEnds(), run.run_log, SOON)
        facts = run.run_log.to_metadata(False, {}, {})
    assert facts.evidence_problems == []
    (warning,) = facts.unexpected_errors
    assert (warning.code, warning.subject) == ("stalled", "s-1.0")
    assert "worker s-1.0 waited in init_transactions for" in warning.text


def test_a_worker_that_is_killed_while_it_waits_waits_no_longer(tmp_path: Path) -> None:
    with fake_run(tmp_path, script("commit_transaction")) as run:
        worker = run.processes.start_worker("s", "s-1")
        run.processes.await_ready([worker])
        wait_for(lambda: worker.status.slow_call_since_ns, "its word", 5)
        update_stalls(run.context, run.run_log)
        worker.child.kill()
        wait_for(lambda: not worker.alive, "its end", 5)
        update_stalls(run.context, run.run_log)
        (stall,) = run.run_log.stalls
    assert stall.until_s is not None
