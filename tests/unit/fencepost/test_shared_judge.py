"""The shared judge: who may ask, what is told, and that nothing stays behind."""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import fencepost
from fencepost.judges import server
from fencepost.judges.client import Client, Refused, shared_client
from fencepost.judges.for_a_run import OwnJudge, SharedJudge, judge_for
from fencepost.judges.lifetime import VARIABLE
from fencepost.judges.protocol import Request, Spark, answer_as_json, answer_from_json, short_name
from harness.errors import EnvironmentFailure, FencepostError, UnreadableInput, WaitTimeout
from harness.settings.options import Options
from harness.verdict import Validity, Verdict
from harness.waiting import wait_for

READY = Request(Spark("/java", "local[2]", {}))
RUN = Request(Spark("/java", "local[2]", {"spark.x": "y"}), (("store/a", "/store/a"),), ("unseen",))
VERDICT = Verdict("store/a", "shop", 7, Validity.VALID, "all well")


@contextmanager
def answering(folder: Path, *lines: dict[str, object]) -> Iterator[tuple[Client, list[dict[str, object]]]]:
    """A judge that says these lines, and what it was asked."""
    folder.mkdir(0o700, parents=True)
    asked: list[dict[str, object]] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener, short_name(folder / "socket") as name:
        listener.bind(name)
        listener.listen()

        def serve() -> None:
            channel, _ = listener.accept()
            with channel, channel.makefile("rw") as stream:
                asked.append(json.loads(stream.readline()))
                stream.writelines(json.dumps(line) + "\n" for line in lines)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield Client(folder / "socket"), asked
        thread.join(5)


def test_a_question_and_its_answer_keep_all_they_say(tmp_path: Path) -> None:
    phases: list[str] = []
    told = ({"phase": "checks"}, {"answers": [answer_as_json(VERDICT)]})
    with answering(tmp_path / ("long" * 40) / "judge", *told) as (
        judge,
        asked,
    ):  # longer than a socket's name
        (answer,) = judge.judge(RUN, phases.append)
    assert isinstance(answer, Verdict)
    assert answer.as_json() == VERDICT.as_json()
    assert phases == ["checks"]
    assert [Request.from_json(body) for body in asked] == [RUN]


def test_an_error_comes_back_as_what_it_was() -> None:
    back = answer_from_json(answer_as_json(UnreadableInput("a table is gone")))
    assert (type(back), str(back)) == (UnreadableInput, "a table is gone")
    other = answer_from_json(answer_as_json(WaitTimeout("Spark", 3, "nothing")))
    assert str(other) == "waited 3 s for Spark; last seen: nothing"


@pytest.mark.parametrize("lines", [(), ({"phase": "checks"},), ({"refused": "another Java"},)])
def test_one_that_refuses_or_ends_is_not_waited_for(
    lines: tuple[dict[str, object], ...], tmp_path: Path
) -> None:
    with (
        answering(tmp_path / "judge", *lines) as (judge, _),
        pytest.raises(Refused, match=r"another Java|without an answer"),
    ):
        judge.judge(RUN, lambda name: None)


def test_one_that_is_cut_off_in_the_middle_of_a_line_is_not_waited_for(tmp_path: Path) -> None:
    folder = tmp_path / "judge"
    folder.mkdir(0o700)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener, short_name(folder / "socket") as name:
        listener.bind(name)
        listener.listen()

        def serve() -> None:
            channel, _ = listener.accept()
            with channel:
                channel.recv(100_000)
                channel.sendall(b'{"answers": [')

        threading.Thread(target=serve, daemon=True).start()
        with pytest.raises(Refused, match="does not answer"):
            Client(folder / "socket").judge(RUN, lambda name: None)


class FakeSpark:
    """In place of `Pending`."""

    closed = False

    def session(self) -> str:
        return "a session"

    def kill(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


class FakeJudging:
    """In place of all that the judge's process calls: what was begun, and what judging does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun: list[FakeSpark] = []
        self.act: Callable[[Callable[[str], None]], None] = lambda phase: phase("checks")
        monkeypatch.setattr(server, "begin_early", self._begin)
        monkeypatch.setattr(server, "java", lambda home: home)
        monkeypatch.setattr(server, "open_evidence", lambda name, folder: name)
        monkeypatch.setattr(server, "judge", self._judge)

    def _begin(self, *_: object, inputs: float) -> FakeSpark:
        self.begun.append(FakeSpark())
        return self.begun[-1]

    def _judge(
        self, spark: str, runs: list[str], allow: frozenset[str], phase: Callable[[str], None]
    ) -> list[Verdict]:
        self.act(phase)
        return [replace(VERDICT, history=run) for run in runs]


@pytest.fixture
def judging(monkeypatch: pytest.MonkeyPatch) -> FakeJudging:
    return FakeJudging(monkeypatch)


@pytest.fixture
def served(judging: FakeJudging, tmp_path: Path) -> Iterator[Client]:
    """A real server, that judges with fakes."""
    folder = tmp_path / "served"
    folder.mkdir(0o700)
    with server.Server(folder / "socket", server.OneSpark()) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield Client(folder / "socket")
        serving.shutdown()


def test_all_who_need_the_same_spark_share_one(judging: FakeJudging, served: Client) -> None:
    served.get_ready(READY)
    (answer,) = served.judge(replace(READY, runs=RUN.runs), lambda name: None)
    assert isinstance(answer, Verdict) and answer.history == "store/a"
    assert len(judging.begun) == 1
    with pytest.raises(Refused, match="another Java"):
        served.judge(RUN, lambda name: None)


def test_one_who_goes_away_ends_nothing_for_the_others(judging: FakeJudging, served: Client) -> None:
    gone, at_work = threading.Event(), threading.Event()

    def act(phase: Callable[[str], None]) -> None:
        at_work.set()
        assert gone.wait(5)
        for _ in range(50):  # the first lines after a reader's end may still be taken
            phase("checks")

    judging.act = act
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel, short_name(served._path) as name:
        channel.connect(name)
        channel.sendall(json.dumps(RUN.as_json()).encode() + b"\n")
        assert at_work.wait(5)
    gone.set()
    (answer,) = served.judge(RUN, lambda name: None)  # it waits until that one is done
    assert isinstance(answer, Verdict)
    assert len(judging.begun) == 1 and not judging.begun[0].closed


def test_where_spark_is_gone_the_next_one_gets_another(judging: FakeJudging, served: Client) -> None:
    def fail(phase: Callable[[str], None]) -> None:
        raise EnvironmentFailure("Spark ended")

    judging.act = fail
    with pytest.raises(Refused, match="Spark is gone: Spark ended"):
        served.judge(RUN, lambda name: None)
    assert judging.begun[0].closed
    judging.act = lambda phase: None
    assert served.judge(RUN, lambda name: None)
    assert len(judging.begun) == 2


def test_what_is_no_question_is_refused(served: Client, capfd: pytest.CaptureFixture[str]) -> None:
    for line, said in ((b"nonsense\n", "JSONDecodeError"), (b"{}\n", "KeyError"), (b"[]\n", "TypeError")):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel, short_name(served._path) as name:
            channel.connect(name)
            channel.sendall(line)
            assert said in channel.makefile().readline()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel, short_name(served._path) as name:
        channel.connect(name)  # and says nothing
    served.get_ready(READY)
    assert "Traceback" not in capfd.readouterr().err


class Refusing(Client):
    """A judge that refuses runs, or everything."""

    def __init__(self, *, ready: bool) -> None:
        super().__init__(Path("/nowhere"))
        self._ready = ready

    def judge(self, request: Request, phase: Callable[[str], None]) -> list[Verdict | FencepostError]:
        if request.runs or not self._ready:
            raise Refused("no")
        return []


class FakeOwn(OwnJudge):
    """A run's own judge, which notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def begin(self, prepared: Any) -> None:
        self.asked.append("begin")

    def judge(self, folder: Path, phase: Callable[[str], None]) -> Verdict:
        self.asked.append("judge")
        return VERDICT


@pytest.mark.parametrize("ready", [True, False])
def test_a_run_that_is_refused_is_judged_by_its_own_spark(ready: bool, tmp_path: Path) -> None:
    own = FakeOwn()
    judge = SharedJudge(Refusing(ready=ready), Options(), own)
    prepared: Any = SimpleNamespace(java=SimpleNamespace(home="/java"))
    judge.begin(prepared)
    assert own.asked == ([] if ready else ["begin"])
    assert judge.judge(tmp_path, lambda name: None) == VERDICT
    assert own.asked == ["begin", "judge"]


def test_a_large_run_has_a_spark_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "/nowhere/socket")
    with ExitStack() as stack:
        assert isinstance(judge_for(Options(), stack), SharedJudge)
        assert isinstance(judge_for(Options(rate=1_000_000), stack), OwnJudge)


def test_a_folder_that_is_open_to_others_is_not_trusted(tmp_path: Path) -> None:
    with answering(tmp_path / "judge", {"answers": []}) as (judge, _):
        (tmp_path / "judge").chmod(0o755)
        with pytest.raises(Refused, match="open to others"):
            judge.get_ready(READY)
        (tmp_path / "judge").chmod(0o700)
        judge.get_ready(READY)


def test_none_is_asked_where_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert shared_client() is None


def test_it_is_there_within_its_with_and_gone_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with fencepost.shared_judge():
        named = Path(os.environ[VARIABLE])
        with fencepost.shared_judge():  # the same
            assert os.environ[VARIABLE] == str(named)
        with pytest.raises(Refused, match="does not run"):  # it listens, and says why it will not
            Client(named).get_ready(Request(Spark("/no/java", "local[2]", {})))
        with pytest.raises(Refused, match="another installation's"):  # whose checkers may be others
            Client(named).get_ready(Request(Spark("/no/java", "local[2]", {}, house="/elsewhere")))
    assert VARIABLE not in os.environ
    assert not named.parent.exists()


def test_it_ends_with_whoever_started_it_whatever_ends_him() -> None:
    code = (
        "import fencepost, os, sys, time\n"
        "with fencepost.shared_judge():\n"
        "    print(os.environ['FENCEPOST_JUDGE'], flush=True)\n"
        "    os.fork() or (os.close(1), time.sleep(15), os._exit(0))\n"  # it holds the judge's pipe too
        "    time.sleep(600)\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    starter = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert starter.stdout is not None
    named = Path(starter.stdout.readline().strip())
    wait_for(named.exists, "the judge to listen", 20)
    starter.kill()
    starter.communicate()
    wait_for(lambda: not _named_in_processes(named), f"no process to name {named}", 20)
    assert not named.parent.exists()


def _named_in_processes(path: Path) -> bool:
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(path) in command.read_bytes().decode(errors="replace"):
                return True
        except OSError:  # it has ended
            continue
    return False
