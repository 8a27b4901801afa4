"""The shared server: its requests and answers, its Spark and its cluster, and its start and end."""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

import fencepost
from fencepost import shared_server as server
from fencepost.api import COMMAND_VARIABLE, FencepostFailed
from fencepost.checks.spark import (
    SharedSpark,
    SparkParts,
    SparkRequest,
    result_as_json,
    result_from_json,
    shared_spark,
)
from fencepost.sharing import (
    SERVER_VARIABLE,
    ServerRefused,
    SharedCluster,
    SharedServer,
    can_connect,
    send_request,
    shared_cluster,
    short_name,
)
from harness.common.documents import decode, encode
from harness.common.errors import EnvironmentFailure, ExitStatus, UnreadableInput, WaitTimeout
from harness.common.waiting import wait_for
from harness.results.verdict import Validity, Verdict
from harness.settings.options import Options

PARTS = SparkParts("/java", "local[2]", {"spark.x": "y"})
RUN = SparkRequest(PARTS, ["/store/a"], ["unseen"])
OTHER_RUN = SparkRequest(structs.replace(PARTS, conf={}), ["/store/a"])
VERDICT = Verdict("/store/a", "shop", 7, Validity.VALID.json, "all well")


def ignore(text: str) -> None:
    pass


@contextmanager
def fake_server(folder: Path, *lines: bytes) -> Iterator[tuple[Path, list[Any]]]:
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


def test_a_request_and_its_answer_are_received_unchanged(tmp_path: Path) -> None:
    phases: list[str] = []
    lines = line(progress="checks"), line(results=[result_as_json(VERDICT)])
    longer_than_an_address = tmp_path / ("long" * 40) / "server"
    with fake_server(longer_than_an_address, *lines) as (path, requests):
        (verdict,) = SharedSpark(path).check(RUN, phases.append)
    assert isinstance(verdict, Verdict)
    assert encode(verdict) == encode(VERDICT)
    assert phases == ["checks"]
    assert [decode(body["spark"], SparkRequest) for body in requests] == [RUN]


def test_an_error_keeps_its_class_and_its_text() -> None:
    decoded = result_from_json(result_as_json(UnreadableInput("a table is gone")))
    assert (type(decoded), str(decoded)) == (UnreadableInput, "a table is gone")
    other_error = result_from_json(result_as_json(WaitTimeout("Spark", 3, "nothing")))
    assert str(other_error) == "waited 3 s for Spark; last seen: nothing"


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ((), "without an answer"),
        ((line(progress="checks"),), "without an answer"),
        ((line(refused="another Java"),), "another Java"),
        ((b'{"results": [',), "does not answer"),
    ],
)
def test_a_server_that_refuses_or_ends_is_an_error(
    lines: tuple[bytes, ...], why: str, tmp_path: Path
) -> None:
    with (
        fake_server(tmp_path / "server", *lines) as (socket_path, _),
        pytest.raises(ServerRefused, match=why),
    ):
        SharedSpark(socket_path).check(RUN, ignore)


def test_a_socket_in_a_folder_that_others_can_open_is_refused(tmp_path: Path) -> None:
    with fake_server(tmp_path / "server", line(results=[])) as (path, _):
        path.parent.chmod(0o755)
        with pytest.raises(ServerRefused, match="open to others"):
            SharedSpark(path).start(PARTS)
        path.parent.chmod(0o700)
        SharedSpark(path).start(PARTS)


def test_without_the_variable_there_is_no_shared_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SERVER_VARIABLE, raising=False)
    assert shared_spark() is None


class FakeSpark:
    """A fake of `StartingSpark`."""

    closed = False

    def session(self) -> str:
        return "a session"

    def kill(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


class FakeServices:
    """Fakes of Spark and the cluster. They record each start. `act` is called when runs are checked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sparks: list[FakeSpark] = []
        self.clusters: list[str] = []
        self.act: Callable[[Callable[[str], None]], None] = lambda phase: phase("checks")
        monkeypatch.setattr(server, "start_early", self._start_spark)
        monkeypatch.setattr(server, "find_java", lambda home: home)
        monkeypatch.setattr(server, "open_evidence", lambda name, folder: name)
        monkeypatch.setattr(server, "check_stored_runs", self._check)
        monkeypatch.setattr(server, "open_cluster", self._cluster)

    def _start_spark(self, *_: object, inputs: float) -> FakeSpark:
        self.sparks.append(FakeSpark())
        return self.sparks[-1]

    def _check(
        self, spark: str, runs: list[str], allow: frozenset[str], phase: Callable[[str], None], examples: int
    ) -> list[Verdict]:
        self.act(phase)
        return [structs.replace(VERDICT, history=run) for run in runs]

    @contextmanager
    def _cluster(self, options: Options, say: Callable[[str], None]) -> Iterator[SharedCluster]:
        say("Kafka is fetched")
        number = len(self.clusters)
        self.clusters.append("up")
        yield SharedCluster("127.0.0.1:4711", options.cluster, options.kafka)
        self.clusters[number] = "ended"


@pytest.fixture
def fake_services(monkeypatch: pytest.MonkeyPatch) -> FakeServices:
    return FakeServices(monkeypatch)


@pytest.fixture
def server_path(fake_services: FakeServices, tmp_path: Path) -> Iterator[Path]:
    """The socket of a real server with fake services."""
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
    assert "up" not in fake_services.clusters


def test_clients_with_equal_settings_share_one_spark(fake_services: FakeServices, server_path: Path) -> None:
    shared = SharedSpark(server_path)
    shared.start(PARTS)
    (verdict,) = shared.check(RUN, ignore)
    assert isinstance(verdict, Verdict) and verdict.history == "/store/a"
    assert len(fake_services.sparks) == 1
    with pytest.raises(ServerRefused, match="another Java"):
        shared.check(OTHER_RUN, ignore)


def test_a_client_that_leaves_does_not_disturb_the_next_one(
    fake_services: FakeServices, server_path: Path
) -> None:
    client_left, check_started = threading.Event(), threading.Event()

    def on_check(phase: Callable[[str], None]) -> None:
        check_started.set()
        assert client_left.wait(5)
        for _ in range(50):  # the first lines after the client has left may still be buffered
            phase("checks")

    fake_services.act = on_check
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel, short_name(server_path) as name:
        channel.connect(name)
        channel.sendall(line(spark=encode(RUN)))
        assert check_started.wait(5)
    client_left.set()
    (verdict,) = SharedSpark(server_path).check(RUN, ignore)  # it waits until the first request is done
    assert isinstance(verdict, Verdict)
    assert len(fake_services.sparks) == 1 and not fake_services.sparks[0].closed


def test_after_spark_has_ended_the_next_client_gets_a_new_one(
    fake_services: FakeServices, server_path: Path
) -> None:
    def fail(phase: Callable[[str], None]) -> None:
        raise EnvironmentFailure("Spark ended")

    fake_services.act = fail
    with pytest.raises(ServerRefused, match="Spark is gone: Spark ended"):
        SharedSpark(server_path).check(RUN, ignore)
    assert fake_services.sparks[0].closed
    fake_services.act = lambda phase: None
    assert SharedSpark(server_path).check(RUN, ignore)
    assert len(fake_services.sparks) == 2


def test_all_clients_share_one_cluster(
    fake_services: FakeServices, server_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clusters = [shared_cluster(server_path, {"kafka": "4.2.1", "brokers": 3}) for _ in range(2)]
    assert clusters == [SharedCluster("127.0.0.1:4711", "local", "4.2.1", [])] * 2
    assert fake_services.clusters == ["up"]
    assert capsys.readouterr().err == "Kafka is fetched\n"


def test_clients_with_different_cluster_options_are_refused(
    fake_services: FakeServices, server_path: Path
) -> None:
    shared_cluster(server_path, {"kafka": "4.2.1"})
    with pytest.raises(
        FencepostFailed, match=r"must not differ; it was --set kafka=4[.]2[.]1 and --set brokers=5"
    ) as error:
        shared_cluster(server_path, {"brokers": 5})
    assert error.value.exit_status == ExitStatus.USAGE
    assert fake_services.clusters == ["up"]


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
def test_options_that_do_not_describe_a_cluster_are_refused(
    options: dict[str, Any], why: str, fake_services: FakeServices, server_path: Path
) -> None:
    for _ in range(2):  # the next client gets the same error
        with pytest.raises(FencepostFailed, match=why) as error:
            shared_cluster(server_path, options)
        assert error.value.exit_status == ExitStatus.USAGE
    assert fake_services.clusters == []


def test_an_invalid_request_is_refused(server_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for request, why in (
        (b"nonsense\n", "JSONDecodeError"),
        (b"{}\n", "KeyError"),
        (b"[]\n", "AttributeError"),
    ):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel, short_name(server_path) as name:
            channel.connect(name)
            channel.sendall(request)
            assert why in channel.makefile().readline()
    assert can_connect(server_path)  # it connects and sends no request
    SharedSpark(server_path).start(PARTS)
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.processes
def test_the_server_lives_as_long_as_the_with_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SERVER_VARIABLE, raising=False)
    with fencepost.shared_spark():
        path = Path(os.environ[SERVER_VARIABLE])
        with fencepost.shared_spark():  # uses the same server
            assert os.environ[SERVER_VARIABLE] == str(path)
        no_java = SparkParts("/no/java", "local[2]", {})
        with pytest.raises(ServerRefused, match="does not run"):  # the server runs, but has no Java
            SharedSpark(path).check(SparkRequest(no_java), ignore)
        with pytest.raises(ServerRefused, match="another installation"):
            SharedSpark(path).start(structs.replace(no_java, installation="/elsewhere"))
        with pytest.raises(FencepostFailed, match="brokers must be"):
            shared_cluster(path, {"brokers": 9})
    assert SERVER_VARIABLE not in os.environ
    assert not path.parent.exists()


@pytest.mark.processes
def test_the_server_ends_after_its_parent_was_killed() -> None:
    code = (
        "import fencepost, os, sys, time\n"
        "with fencepost.shared_spark():\n"
        f"    print(os.environ['{SERVER_VARIABLE}'], flush=True)\n"
        "    os.fork() or (os.close(1), time.sleep(15), os._exit(0))\n"  # the child has the pipe open too
        "    time.sleep(600)\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != SERVER_VARIABLE}
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert parent.stdout is not None
    path = Path(parent.stdout.readline().strip())
    with pytest.raises(ServerRefused, match="not a request"):  # the server answers
        send_request(path, {}, ignore)
    parent.kill()
    parent.communicate()
    wait_for(lambda: not _named_in_processes(path), f"no process to name {path}", 20)
    assert not path.parent.exists()


def _named_in_processes(path: Path) -> bool:
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(path) in command.read_bytes().decode(errors="replace"):
                return True
        except OSError:  # it has ended
            continue
    return False


@pytest.mark.processes
def test_a_lazy_server_starts_with_its_first_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = tmp_path / "started"
    fake_command = tmp_path / "stand_in.py"
    fake_command.write_text(
        f"import sys, pathlib\npathlib.Path({str(started)!r}).touch()\nsys.stdin.read()\n"
    )
    monkeypatch.setenv(COMMAND_VARIABLE, f"{sys.executable} {fake_command}")
    with SharedServer(lazy=True) as unused_server:
        pass
    assert not started.exists() and not unused_server.path.exists()
    with SharedServer(lazy=True) as used_server:
        assert can_connect(used_server.path)
        wait_for(started.exists, "the server to start", 20)
    assert not used_server.path.exists()


@pytest.mark.processes
@pytest.mark.parametrize("lazy", [True, False])
def test_a_missing_command_is_named(lazy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(COMMAND_VARIABLE, "/no/such/fencepost")
    with (
        SharedServer(lazy=lazy) as server_,
        pytest.raises(FencepostFailed, match=r"^`/no/such/fencepost` cannot be started: "),
    ):
        shared_cluster(server_.path, {})


@pytest.mark.processes
def test_the_message_of_a_server_that_ends_at_once_reaches_its_clients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_command = tmp_path / "stand_in.py"
    fake_command.write_text(
        "import os, pathlib\npathlib.Path(os.environ['FENCEPOST_LAST_WORDS']).write_text('click is missing')\n"
    )
    monkeypatch.setenv(COMMAND_VARIABLE, f"{sys.executable} {fake_command}")
    with SharedServer() as server_, pytest.raises(FencepostFailed, match=r"^click is missing$"):
        shared_cluster(server_.path, {})
