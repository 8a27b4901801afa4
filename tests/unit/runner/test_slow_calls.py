"""A worker that waits in a call for ever is stalled. The reason names the call, its duration and the broker."""

from pathlib import Path

import pytest

from harness.common.errors import EnvironmentFailure
from harness.common.waiting import wait_for
from harness.model.vocabulary import WorkerStep
from harness.runner.final_state import DrainTimeouts, quiesce
from harness.runner.run_log import update_slow_calls
from tests.support.fake_run import PIPELINE, FakeEndMarkers, FakeRun, Script, fake_run

pytestmark = pytest.mark.processes

SOON = DrainTimeouts(in_sync_s=0.2, drain_s=0.4, clean_up_s=0.2, reads_s=3.0, every_s=0.01)
WAITS = 'report(ready=True)\nreport(slow_call="{call}", slow_call_since_ns=1)\n{back}\nwhile True: time.sleep(600)'


@pytest.fixture(autouse=True)
def short_stop_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.runner.run_process.STOP_TIMEOUT_S", 0.3)


def reasons(run: FakeRun) -> list[tuple[str, str, str]]:
    run.processes.await_ready([run.processes.start_worker("s", "s-1")])
    quiesce(PIPELINE, run.context, FakeEndMarkers(), run.run_log, SOON)
    return [(problem.code, problem.subject, problem.text) for problem in run.run_log.evidence_problems]


def script(call: str, after: str = "") -> Script:
    return Script(WAITS.replace("{call}", call).replace("{back}", after))


@pytest.mark.parametrize(
    ("call", "responder"),
    [
        ("send_offsets_to_transaction", "the coordinator of its group g is broker"),
        ("commit_transaction", "the coordinator of its transactional id s-1 is broker"),
    ],
)
def test_a_stalled_call_is_reported_with_the_broker_that_should_answer(
    tmp_path: Path, call: str, responder: str
) -> None:
    with fake_run(tmp_path, script(call)) as run:
        run.run_log.client_notes = "send_offsets_to_transaction may hang"
        ((code, subject, text),) = reasons(run)
    assert (code, subject) == ("stalled", "s-1.0")
    known = "; known of this client: send_offsets_to_transaction may hang"
    assert text.endswith(known) is (call == "send_offsets_to_transaction")
    assert f"worker s-1.0 has waited in {call} for" in text and responder in text


def test_a_call_that_has_returned_is_not_the_reason_of_a_kill(tmp_path: Path) -> None:
    with fake_run(tmp_path, script("commit_transaction", "report(slow_call_since_ns=0)")) as run:
        ((code, _, _),) = reasons(run)
    assert code == "did-not-end"


def test_a_stalled_call_is_reported_without_its_coordinator_if_that_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fake_run(tmp_path, script("send_offsets_to_transaction")) as run:

        def no_answer(group: str) -> int:
            raise EnvironmentFailure("no broker answers")

        monkeypatch.setattr(run.cluster, "group_coordinator", no_answer)
        ((code, _, text),) = reasons(run)
    assert code == "stalled" and "its coordinator is not known now" in text


RETURNS_LATE = """
report(ready=True, slow_call="init_transactions", slow_call_since_ns=1)
for command in commands:
    if command.get("arm"):
        report(slow_call_since_ns=0, step=command["arm"])
    if command.get("stop"):
        break
"""


def test_a_call_that_returns_late_is_a_warning(tmp_path: Path) -> None:
    with fake_run(tmp_path, Script(RETURNS_LATE)) as run:
        worker = run.processes.start_worker("s", "s-1")
        run.processes.await_ready([worker])
        for _ in range(2):
            update_slow_calls(run.context, run.run_log)
        (line,) = run.progress.lines
        assert "worker s-1.0 has waited in init_transactions for" in line
        run.processes.hold_at_step(worker, WorkerStep.AFTER_POLL, 5)
        quiesce(PIPELINE, run.context, FakeEndMarkers(), run.run_log, SOON)
        metadata = run.run_log.to_metadata(False, {}, {})
    assert metadata.evidence_problems == []
    (warning,) = metadata.unexpected_errors
    assert (warning.code, warning.subject) == ("stalled", "s-1.0")
    assert "worker s-1.0 waited in init_transactions for" in warning.text


def test_the_call_of_a_killed_worker_has_ended(tmp_path: Path) -> None:
    with fake_run(tmp_path, script("commit_transaction")) as run:
        worker = run.processes.start_worker("s", "s-1")
        run.processes.await_ready([worker])
        wait_for(lambda: worker.status.slow_call_since_ns, "its report", 5)
        update_slow_calls(run.context, run.run_log)
        worker.child.kill()
        wait_for(lambda: not worker.alive, "its end", 5)
        update_slow_calls(run.context, run.run_log)
        (slow_call,) = run.run_log.slow_calls
    assert slow_call.until_s is not None
