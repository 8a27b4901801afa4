"""Kafka, Java and toxiproxy from the cache that runs share. A missing part is fetched and built once."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from harness.common.waiting import wait_for
from harness.environment import PreparedEnvironment
from harness.environment.cache import Builder, cache_folder
from harness.environment.java import BROKER, STORAGE_TOOL, broker_command, make_archive
from harness.environment.prepare import prepare
from harness.environment.resources import PortBlock
from harness.environment.versions import DEFAULT_KAFKA
from harness.processes.spawn import Supervisor

CONFIG = """\
node.id=1
process.roles=broker,controller
listeners=B://127.0.0.1:{},C://127.0.0.1:{}
listener.security.protocol.map=B:PLAINTEXT,C:PLAINTEXT
inter.broker.listener.name=B
controller.listener.names=C
controller.quorum.voters=1@127.0.0.1:{}
log.dirs={}
"""
MAKE_ARCHIVE = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # our parent process may ignore the signal
from pathlib import Path
from harness.environment.java import make_archive
from harness.environment.cache import Builder
from harness.environment.prepare import prepare
ready = prepare(*sys.argv[1:4], Path(sys.argv[4]), print)
with Builder() as builder:
    make_archive(ready.java, ready.kafka, ready.cache, builder)
"""


@pytest.fixture(scope="module", params=["auto", "bundled"])
def prepared(request: pytest.FixtureRequest) -> PreparedEnvironment:
    """With an archive, as it is after the second run on a machine."""
    first = prepare(DEFAULT_KAFKA, request.param, request.param, cache_folder(), print)
    with Builder() as builder:
        make_archive(first.java, first.kafka, first.cache, builder)
    return prepare(DEFAULT_KAFKA, request.param, request.param, cache_folder(), print)


def test_a_second_preparation_is_quick_and_prints_nothing(prepared: PreparedEnvironment) -> None:
    choice = "bundled" if "bundled" in prepared.java.origin else "auto"
    messages: list[str] = []
    before = time.monotonic()
    assert prepare(DEFAULT_KAFKA, choice, choice, prepared.cache, messages.append) == prepared
    assert messages == []
    assert time.monotonic() - before < 10


def test_toxiproxy_runs(prepared: PreparedEnvironment) -> None:
    version = subprocess.run(
        [prepared.toxiproxy, "-version"], capture_output=True, text=True, check=True
    ).stdout
    assert "version 2." in version


def test_a_broker_starts_from_the_archive_writes_a_log_and_ends_cleanly(
    prepared: PreparedEnvironment, tmp_path: Path
) -> None:
    assert prepared.archive_flags
    config, log = tmp_path / "server.properties", tmp_path / "log"
    with PortBlock(prepared.cache) as ports, Supervisor() as supervisor:
        broker, controller = ports.take(), ports.take()
        config.write_text(CONFIG.format(broker, controller, controller, tmp_path / "data"))
        args = ["format", "--cluster-id=AAAAAAAAAAAAAAAAAAAAAA", f"--config={config}"]
        command = broker_command(prepared.java, prepared.kafka, main=STORAGE_TOOL, args=args, folder=tmp_path)
        subprocess.run(command, check=True, capture_output=True)
        command = broker_command(
            prepared.java,
            prepared.kafka,
            args=[config],
            folder=tmp_path,
            archive_flags=prepared.archive_flags,
        )
        child = supervisor.spawn(command, name="a broker", log_file=log)
        wait_for(
            lambda: child.poll() is not None or "Kafka Server started" in log.read_text(), "a broker", 60.0
        )
        if sys.platform == "linux":
            assert "broker.archive" in Path(f"/proc/{child.pid}/maps").read_text()
        assert child.stop(30.0) == f"process {child.pid} ended with status 143"
    assert "INFO [BrokerServer id=1] shut down completed" in log.read_text()
    assert "[error]" not in log.read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_build_of_an_archive_leaves_no_process(
    number: signal.Signals, prepared: PreparedEnvironment, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    # Only the archive is missing.
    (cache / f"kafka-{DEFAULT_KAFKA}").symlink_to(prepared.kafka.class_path[0].parent)
    args = [DEFAULT_KAFKA, str(prepared.java.home), str(prepared.toxiproxy), str(cache)]
    with subprocess.Popen([sys.executable, "-c", MAKE_ARCHIVE, *args], stderr=subprocess.DEVNULL) as process:
        wait_for(lambda: brokers_of(cache), "the archive's broker to be started", 60.0)
        process.send_signal(number)
        process.wait(30)
    wait_for(lambda: not brokers_of(cache), "the end of the archive's broker", 30.0)
    left = list((cache / "building").iterdir())
    assert bool(left) == (number == signal.SIGKILL)  # the next build removes it


def brokers_of(cache: Path) -> list[int]:
    """Return the pids of brokers that run from the cache."""
    pids = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if BROKER in words and any(str(cache) in word for word in words):
            pids.append(process.pid)
    return pids
