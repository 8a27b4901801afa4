"""The shared server: requests and answers, one Spark and one cluster for all clients, and the process's life."""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

import fencepost
from fencepost import shared_server as server
from fencepost.api import COMMAND_VARIABLE, FencepostFailed
from fencepost.sharing.client import ServerRefused, can_connect, send_request, short_name
from fencepost.sharing.cluster import SharedCluster, shared_cluster
from fencepost.sharing.process import SERVER_VARIABLE, SharedServer
from fencepost.sharing.spark import (
    SharedSpark,
    SparkParts,
    SparkRequest,
    result_as_json,
    result_from_json,
    shared_spark,
)
from harness.common.errors import EnvironmentFailure, ExitStatus, UnreadableInput, WaitTimeout
from harness.common.waiting import wait_for
from harness.results.verdict import Validity, Verdict
from harness.settings.options import Options

PARTS = SparkParts("/java", "local[2]", {"spark.x": "y"})
RUN = SparkRequest(PARTS, ["/store/a"], ["unseen"])
OTHER_RUN = SparkRequest(replace(PARTS, conf={}), ["/store/a"])
VERDICT = Verdict("/store/a", "shop", 7, Validity.VALID, "all well")


def silent(text: str) -> None:
    pass


@contextmanager
def answering(folder: Path, *lines: bytes) -> Iterator[tuple[Path, list[Any]]]:
    """A server that writes these lines to its first client, and the requests that it received."""
    folder.mkdir(0o700, parents=True)
    requests: list[Any] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener, short_name(folder / "socket") as name:
        listener.bind(name)
        listener.listen()

        def serve() -> None:
            channel, _ = listener.accept()
            with channel, channel.makefile("rwb") as stream:
                requests.append(json.loads(stream.readline()))
                stream.writelines(lines)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield folder / "socket", requests
        thread.join(5)


def line(**body: object) -> bytes:
    return json.dumps(body).encode() + b"\n"


def test_a_request_and_its_answer_keep_all_that_they_hold(tmp_path: Path) -> None:
    phases: list[str] = []
    lines = line(progress="checks"), line(results=[result_as_json(VERDICT)])
    longer_than_an_address = tmp_path / ("long" * 40) / "server"
    with answering(longer_than_an_address, *lines) as (path, requests):
        (verdict,) = SharedSpark(path).decide(RUN, phases.append)
    assert isinstance(verdict, Verdict)
    assert verdict.as_json() == VERDICT.as_json()
    assert phases == ["checks"]
    assert [SparkRequest.from_json(body["spark"]) for body in requests] == [RUN]


def test_an_error_keeps_its_class_and_its_text() -> None:
    back = result_from_json(result_as_json(UnreadableInput("a table is gone")))
    assert (type(back), str(back)) == (UnreadableInput, "a table is gone")
    other = result_from_json(result_as_json(WaitTimeout("Spark", 3, "nothing")))
    assert str(other) == "waited 3 s for Spark; last seen: nothing"


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ((), "without an answer"),
        ((line(progress="checks"),), "without an answer"),
        ((line(refused="another Java"),), "another Java"),
        ((b'{"results": [',), "does not answer"),
    ],
)
def test_a_server_that_refuses_or_ends_is_not_waited_for(
    lines: tuple[bytes, ...], why: str, tmp_path: Path
) -> None:
    with answering(tmp_path / "server", *lines) as (path, _), pytest.raises(ServerRefused, match=why):
        SharedSpark(path).decide(RUN, silent)


def test_a_folder_that_is_open_to_others_is_not_trusted(tmp_path: Path) -> None:
    with answering(tmp_path / "server", line(results=[])) as (path, _):
        path.parent.chmod(0o755)
        with pytest.raises(ServerRefused, match="open to others"):
            SharedSpark(path).start(PARTS)
        path.parent.chmod(0o700)
        SharedSpark(path).start(PARTS)


def test_without_the_variable_there_is_no_shared_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SERVER_VARIABLE, raising=False)
    assert shared_spark() is None


class FakeSpark:
    """In place of `StartingSpark`."""

    closed = False

    def session(self) -> str:
        return "a session"

    def kill(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


class Fakes:
    """In place of all that the server calls: which Sparks and clusters were started, and what deciding does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sparks: list[FakeSpark] = []
        self.clusters: list[str] = []
        self.act: Callable[[Callable[[str], None]], None] = lambda phase: phase("checks")
        monkeypatch.setattr(server, "start_early", self._begin)
        monkeypatch.setattr(server, "find_java", lambda home: home)
        monkeypatch.setattr(server, "open_evidence", lambda name, folder: name)
        monkeypatch.setattr(server, "decide_runs", self._judge)
        monkeypatch.setattr(server, "open_cluster", self._cluster)

    def _begin(self, *_: object, inputs: float) -> FakeSpark:
        self.sparks.append(FakeSpark())
        return self.sparks[-1]

    def _judge(
        self, spark: str, runs: list[str], allow: frozenset[str], phase: Callable[[str], None]
    ) -> list[Verdict]:
        self.act(phase)
        return [replace(VERDICT, history=run) for run in runs]

    @contextmanager
    def _cluster(self, options: Options, say: Callable[[str], None]) -> Iterator[SharedCluster]:
        say("Kafka is fetched")
        number = len(self.clusters)
        self.clusters.append("up")
        yield SharedCluster("127.0.0.1:4711", options.cluster, options.kafka)
        self.clusters[number] = "ended"


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> Fakes:
    return Fakes(monkeypatch)


@pytest.fixture
def served(fakes: Fakes, tmp_path: Path) -> Iterator[Path]:
    """The socket of a real server that works with fakes."""
    folder = tmp_path / "served"
    folder.mkdir(0o700)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener, short_name(folder / "socket") as name:
        listener.bind(name)
        listener.listen()
        serving = server.Server(listener)
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield folder / "socket"
        serving.shutdown()
        serving.spark.close()
        serving.cluster.close()
    assert "up" not in fakes.clusters


def test_all_who_need_the_same_spark_share_one(fakes: Fakes, served: Path) -> None:
    shared = SharedSpark(served)
    shared.start(PARTS)
    (verdict,) = shared.decide(RUN, silent)
    assert isinstance(verdict, Verdict) and verdict.history == "/store/a"
    assert len(fakes.sparks) == 1
    with pytest.raises(ServerRefused, match="another Java"):
        shared.decide(OTHER_RUN, silent)


def test_a_client_that_goes_away_ends_nothing_for_the_others(fakes: Fakes, served: Path) -> None:
    gone, at_work = threading.Event(), threading.Event()

    def act(phase: Callable[[str], None]) -> None:
        at_work.set()
        assert gone.wait(5)
        for _ in range(50):  # the first lines after a reader's end may still be taken
            phase("checks")

    fakes.act = act
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel, short_name(served) as name:
        channel.connect(name)
        channel.sendall(line(spark=asdict(RUN)))
        assert at_work.wait(5)
    gone.set()
    (verdict,) = SharedSpark(served).decide(RUN, silent)  # it waits until that one is done
    assert isinstance(verdict, Verdict)
    assert len(fakes.sparks) == 1 and not fakes.sparks[0].closed


def test_where_spark_is_gone_the_next_client_gets_another(fakes: Fakes, served: Path) -> None:
    def fail(phase: Callable[[str], None]) -> None:
        raise EnvironmentFailure("Spark ended")

    fakes.act = fail
    with pytest.raises(ServerRefused, match="Spark is gone: Spark ended"):
        SharedSpark(served).decide(RUN, silent)
    assert fakes.sparks[0].closed
    fakes.act = lambda phase: None
    assert SharedSpark(served).decide(RUN, silent)
    assert len(fakes.sparks) == 2


def test_all_clients_share_one_cluster(
    fakes: Fakes, served: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = [shared_cluster(served, {"kafka": "4.2.1", "brokers": 3}) for _ in range(2)]
    assert told == [SharedCluster("127.0.0.1:4711", "local", "4.2.1", [])] * 2
    assert fakes.clusters == ["up"]
    assert capsys.readouterr().err == "Kafka is fetched\n"


def test_clients_that_want_different_clusters_are_told_so(fakes: Fakes, served: Path) -> None:
    shared_cluster(served, {"kafka": "4.2.1"})
    with pytest.raises(
        FencepostFailed, match=r"must not differ; it was --set kafka=4[.]2[.]1 and --set brokers=5"
    ) as told:
        shared_cluster(served, {"brokers": 5})
    assert told.value.exit_status == ExitStatus.USAGE
    assert fakes.clusters == ["up"]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"brokers": 9}, "did not start: brokers must be a whole number from 1 to 7, not 9"),
        ({"rate": 5}, "give rate to the run"),
        ({"master": "local[1]"}, "give --master to the run"),
        ({"cluster": "external", "bootstrap": "a:1"}, "to the run"),
        ({"cluster": "external"}, "bootstrap"),
    ],
)
def test_options_that_describe_no_cluster_are_refused_in_words(
    options: dict[str, Any], why: str, fakes: Fakes, served: Path
) -> None:
    for _ in range(2):  # the next client learns the same
        with pytest.raises(FencepostFailed, match=why) as told:
            shared_cluster(served, options)
        assert told.value.exit_status == ExitStatus.USAGE
    assert fakes.clusters == []


def test_what_is_no_request_is_refused(served: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for written, why in (
        (b"nonsense\n", "JSONDecodeError"),
        (b"{}\n", "KeyError"),
        (b"[]\n", "AttributeError"),
    ):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel, short_name(served) as name:
            channel.connect(name)
            channel.sendall(written)
            assert why in channel.makefile().readline()
    assert can_connect(served)  # it connects and asks nothing
    SharedSpark(served).start(PARTS)
    assert "Traceback" not in capfd.readouterr().err


def test_it_is_there_within_its_with_and_gone_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SERVER_VARIABLE, raising=False)
    with fencepost.shared_spark():
        named = Path(os.environ[SERVER_VARIABLE])
        with fencepost.shared_spark():  # the same
            assert os.environ[SERVER_VARIABLE] == str(named)
        no_java = SparkParts("/no/java", "local[2]", {})
        with pytest.raises(ServerRefused, match="does not run"):  # it listens, and says why it does not start
            SharedSpark(named).decide(SparkRequest(no_java), silent)
        with pytest.raises(ServerRefused, match="another installation"):
            SharedSpark(named).start(replace(no_java, installation="/elsewhere"))
        with pytest.raises(FencepostFailed, match="brokers must be"):
            shared_cluster(named, {"brokers": 9})
    assert SERVER_VARIABLE not in os.environ
    assert not named.parent.exists()


def test_it_ends_with_the_process_that_started_it_whatever_ends_that() -> None:
    code = (
        "import fencepost, os, sys, time\n"
        "with fencepost.shared_spark():\n"
        f"    print(os.environ['{SERVER_VARIABLE}'], flush=True)\n"
        "    os.fork() or (os.close(1), time.sleep(15), os._exit(0))\n"  # it holds the server's pipe too
        "    time.sleep(600)\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != SERVER_VARIABLE}
    starter = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert starter.stdout is not None
    named = Path(starter.stdout.readline().strip())
    with pytest.raises(ServerRefused, match="not a request"):  # it answers
        send_request(named, {}, silent)
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


def test_a_lazy_server_starts_with_its_first_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = tmp_path / "started"
    stand_in = tmp_path / "stand_in.py"
    stand_in.write_text(f"import sys, pathlib\npathlib.Path({str(started)!r}).touch()\nsys.stdin.read()\n")
    monkeypatch.setenv(COMMAND_VARIABLE, f"{sys.executable} {stand_in}")
    with SharedServer(lazy=True) as unused:
        pass
    assert not started.exists() and not unused.path.exists()
    with SharedServer(lazy=True) as used:
        assert can_connect(used.path)
        wait_for(started.exists, "the server to start", 20)
    assert not used.path.exists()


@pytest.mark.parametrize("lazy", [True, False])
def test_a_command_that_is_not_there_is_named(lazy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(COMMAND_VARIABLE, "/no/such/fencepost")
    with (
        SharedServer(lazy=lazy) as there,
        pytest.raises(FencepostFailed, match=r"^`/no/such/fencepost` cannot be started: "),
    ):
        shared_cluster(there.path, {})


def test_a_server_that_ends_at_once_leaves_its_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in = tmp_path / "stand_in.py"
    stand_in.write_text(
        "import os, pathlib\npathlib.Path(os.environ['FENCEPOST_LAST_WORDS']).write_text('click is missing')\n"
    )
    monkeypatch.setenv(COMMAND_VARIABLE, f"{sys.executable} {stand_in}")
    with SharedServer() as there, pytest.raises(FencepostFailed, match=r"^click is missing$"):
        shared_cluster(there.path, {})
