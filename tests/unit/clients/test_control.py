"""A worker waits at an armed step until it is struck, and nowhere else."""

import socket
import threading
from collections.abc import Iterator

import pytest

from harness.model.vocabulary import WorkerStep
from harness.processes.control_line import Command, Report
from harness.roles.control import Control


class Line:
    """Both ends of a control line."""

    def __init__(self) -> None:
        self.run, theirs = socket.socketpair()
        self.control = Control(theirs)

    def send(self, command: Command) -> None:
        self.run.sendall(command.line())

    def told(self) -> Report:
        self.run.settimeout(5)
        return Report.parse(self.run.recv(65536))


@pytest.fixture
def line() -> Iterator[Line]:
    yield Line()


def test_a_step_that_is_not_armed_is_passed(line: Line) -> None:
    line.send(Command(arm="after-send"))
    line.control.pause_at(WorkerStep.AFTER_POLL)
    line.run.setblocking(False)
    with pytest.raises(BlockingIOError):
        line.run.recv(1)


def test_an_armed_step_is_told_and_waited_at_until_told_to_go(line: Line) -> None:
    line.send(Command(arm="after-send"))
    thread = threading.Thread(
        target=line.control.pause_at, args=(WorkerStep.AFTER_SEND,), kwargs={"claims": {"a/0": (1, 2)}}
    )
    thread.start()
    assert line.told() == Report(step="after-send", claims={"a/0": (1, 2)})
    assert thread.is_alive()
    line.send(Command(go=True, replaced=True))
    thread.join(5)
    assert not thread.is_alive()
    assert line.control.replaced


def test_a_fault_that_wants_a_commit_lets_an_abort_pass(line: Line) -> None:
    line.send(Command(arm="after-send", txn_end="commit"))
    line.control.pause_at(WorkerStep.AFTER_SEND, intended_end="abort")
    assert line.control.is_armed(WorkerStep.AFTER_SEND)


def test_a_run_that_is_gone_stops_the_worker(line: Line) -> None:
    line.run.close()
    line.control.listen()
    assert line.control.stopping


def test_who_awaits_a_go_that_has_come_does_not_wait(line: Line) -> None:
    line.send(Command(go=True))
    line.control.await_go()
    assert not line.control.stopping


def test_who_awaits_a_go_is_let_off_by_stop_and_by_the_end_of_the_run(line: Line) -> None:
    line.send(Command(stop=True))
    line.control.await_go()
    assert line.control.stopping
    other = Line()
    other.run.close()
    other.control.await_go()
    assert other.control.stopping
