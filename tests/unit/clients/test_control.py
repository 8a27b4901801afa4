"""A worker waits at an armed step until the run says go, and at no other step."""

import socket
import threading
from collections.abc import Iterator

import pytest

from harness.model.vocabulary import WorkerStep
from harness.processes.messages import Command, Report
from harness.roles.control import Control


class Line:
    """Both ends of a control line."""

    def __init__(self) -> None:
        self.run, worker_end = socket.socketpair()
        self.control = Control(worker_end)

    def send(self, command: Command) -> None:
        self.run.sendall(command.line())

    def read_report(self) -> Report:
        self.run.settimeout(5)
        return Report.parse(self.run.recv(65536))


@pytest.fixture
def line() -> Iterator[Line]:
    yield Line()


def test_a_worker_does_not_stop_at_a_step_that_is_not_armed(line: Line) -> None:
    line.send(Command(arm="after-send"))
    line.control.pause_at(WorkerStep.AFTER_POLL)
    line.run.setblocking(False)
    with pytest.raises(BlockingIOError):
        line.run.recv(1)


def test_a_worker_reports_an_armed_step_and_waits_until_the_run_says_go(line: Line) -> None:
    line.send(Command(arm="after-send"))
    thread = threading.Thread(
        target=line.control.pause_at, args=(WorkerStep.AFTER_SEND,), kwargs={"claims": {"a/0": (1, 2)}}
    )
    thread.start()
    assert line.read_report() == Report(step="after-send", claims={"a/0": (1, 2)})
    assert thread.is_alive()
    line.send(Command(go=True, replaced=True))
    thread.join(5)
    assert not thread.is_alive()
    assert line.control.replaced


def test_a_step_armed_for_a_commit_is_not_reported_before_an_abort(line: Line) -> None:
    line.send(Command(arm="after-send", intended_end="commit"))
    line.control.pause_at(WorkerStep.AFTER_SEND, intended_end="abort")
    assert line.control.is_armed(WorkerStep.AFTER_SEND)


def test_the_end_of_the_run_stops_the_worker(line: Line) -> None:
    line.run.close()
    line.control.listen()
    assert line.control.stopping


def test_await_go_returns_at_once_if_the_go_has_arrived(line: Line) -> None:
    line.send(Command(go=True))
    line.control.await_go()
    assert not line.control.stopping


def test_await_go_returns_after_a_stop_and_after_the_end_of_the_run(line: Line) -> None:
    line.send(Command(stop=True))
    line.control.await_go()
    assert line.control.stopping
    ended = Line()
    ended.run.close()
    ended.control.await_go()
    assert ended.control.stopping
