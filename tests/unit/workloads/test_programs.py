"""The programs of the workload explore, on a client without Kafka."""

import socket
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from harness.clients.interface import ErrorMeaning
from harness.processes.messages import CaseEnd, CaseOrder, Command, Report
from harness.protocol.cases import OVER
from harness.record.events import JournalBegan
from harness.record.journal import Journal
from harness.roles.control import Control
from tests.support.fake_client import FakeClient, FakeRecord
from workloads.explore import EXPLORE, INPUTS
from workloads.loop.programs import MOST_TRANSACTIONS, ProgramWorker
from workloads.loop.worker import WorkerSettings
from workloads.model.policy import CORRECT, Delivery

CASE = 3
INIT = ("init", f"tasks-{CASE}")
SHOWN = ("init", "begin", "send", "send-offsets", "commit", "abort", "discard")


def carry_out(
    client: FakeClient,
    folder: Path,
    program: str,
    stops: tuple[str, ...] = (),
    at_step: Callable[[str], None] = lambda step: None,
    **more: Any,
) -> tuple[CaseEnd, list[str]]:
    """Carry out one case. Returns its end, and the steps at which the worker waited for the run."""
    client.logs["tasks", CASE] = [
        FakeRecord(("tasks", CASE), offset, b"%d" % offset) for offset in range(INPUTS)
    ]
    worker_end, run_end = socket.socketpair()
    ends: list[CaseEnd] = []
    waits: list[str] = []

    def run_side() -> None:
        run_end.sendall(Command(case=CaseOrder(CASE, program, stops, **more)).line())
        for line in run_end.makefile("rb"):
            report = Report.parse(line)
            if report.step is not None:
                waits.append(report.step)
                at_step(report.step)
                run_end.sendall(Command(go=True).line())
            if report.case is not None:
                ends.append(report.case)
                run_end.sendall(Command(stop=True).line())

    thread = Thread(target=run_side)
    thread.start()
    began = JournalBegan("program-1.0", role="worker", stage="program", process=0)
    with Journal(folder / "program-1.0.jsonl", 0, began) as journal:
        settings = WorkerSettings(
            "b", "g", None, 0, 20, 0.0, 1, CORRECT, Delivery.PROGRAMS, partitions=CASE + 1
        )
        ProgramWorker(EXPLORE.stages[0], settings, client, journal, Control(worker_end)).run()
    worker_end.close()
    thread.join()
    run_end.close()
    (end,) = ends
    return end, waits


def calls(client: FakeClient) -> list[str]:
    return [name for name, *_ in client.calls if name in SHOWN]


TRANSACTION = ["begin", "send", "send", "send-offsets"]
OF_TWO = ["begin", *["send"] * 4, "send-offsets"]


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("CC", ["init", *TRANSACTION, "commit", *TRANSACTION, "commit"]),
        ("AC", ["init", *TRANSACTION, "abort", *TRANSACTION, "commit", *TRANSACTION, "commit"]),
        ("CA", ["init", *TRANSACTION, "commit", *TRANSACTION, "abort", *TRANSACTION, "commit"]),
        ("CRC", ["init", *TRANSACTION, "commit", "discard", "init", *TRANSACTION, "commit"]),
        ("BCC", ["init", *OF_TWO, "abort", *TRANSACTION, "commit", *TRANSACTION, "commit"]),
    ],
)  # fmt: skip
def test_a_program_ends_each_transaction_as_it_says_and_leaves_no_input(
    program: str, expected: list[str], tmp_path: Path
) -> None:
    client = FakeClient()
    carry_out(client, tmp_path, program)
    assert calls(client) == [*expected, "discard"]
    assert client.committed == {("tasks", CASE): INPUTS}


def test_a_lost_producer_sends_no_offsets_and_does_not_end_its_transaction(tmp_path: Path) -> None:
    client = FakeClient()
    carry_out(client, tmp_path, "CKC")
    lost = ["begin", "send", "send", "discard", "init"]
    assert calls(client) == ["init", *TRANSACTION, "commit", *lost, *TRANSACTION, "commit", "discard"]


def test_a_worker_that_is_to_be_killed_keeps_its_producer_and_the_next_one_continues(tmp_path: Path) -> None:
    client = FakeClient()
    first, _ = carry_out(client, tmp_path, "CK", killed=True)
    lost = [*TRANSACTION, "commit", "begin", "send", "send"]
    assert calls(client) == ["init", *lost] and first.begun == 2
    (tmp_path / "next").mkdir()
    second, _ = carry_out(client, tmp_path / "next", "C", begun=first.begun)
    assert calls(client) == ["init", *lost, "init", *TRANSACTION, "commit", "discard"]
    assert [step for _, step in second.steps][:2] == ["3.init", "3.first"]


def test_the_outputs_of_both_topics_can_be_sent_at_once(tmp_path: Path) -> None:
    client = FakeClient()
    end, _ = carry_out(client, tmp_path, "ca")
    steps = [step for _, step in end.steps if step.startswith("1.")]
    assert steps == ["1.init", "1.outputs", "1.offsets", "1.end"]
    assert calls(client)[:11] == ["init", *TRANSACTION, "commit", *TRANSACTION, "abort"]


def test_the_worker_waits_before_the_step_of_its_order_and_when_the_program_is_over(tmp_path: Path) -> None:
    client, before = FakeClient(), []
    end, waits = carry_out(
        client, tmp_path, "CC", ("2.offsets",), lambda step: before.append(calls(client)[-1])
    )
    assert waits == ["2.offsets", OVER] and before == ["send", "commit"]
    names = [f"{number}.{step}" for number in (1, 2) for step in ("first", "second", "offsets", "end")]
    assert [step for _, step in end.steps] == ["1.init", *names, OVER]


def test_another_worker_takes_over_if_the_group_has_another_offset(tmp_path: Path) -> None:
    client = FakeClient()

    def set_back(step: str) -> None:
        client.committed["tasks", CASE] = 1

    carry_out(client, tmp_path, "CC", (), set_back)
    assert calls(client)[-7:] == ["init", *TRANSACTION, "commit", "discard"]


def test_the_errors_after_which_a_new_producer_was_needed_are_reported(tmp_path: Path) -> None:
    client = FakeClient(fails={"send-offsets": ErrorMeaning.FENCED})

    def recover(step: str) -> None:
        client.fails = {}

    end, waits = carry_out(client, tmp_path, "C", ("2.init",), recover)
    assert end.errors == ("send-offsets was to fail",) and waits == ["2.init", OVER]
    assert client.committed == {("tasks", CASE): INPUTS} and not end.left


def test_a_program_whose_transactions_always_fail_leaves_its_inputs(tmp_path: Path) -> None:
    client = FakeClient(fails={"send-offsets": ErrorMeaning.ABORTABLE})
    end, _ = carry_out(client, tmp_path, "C")
    assert end.left == INPUTS and calls(client).count("begin") == MOST_TRANSACTIONS
