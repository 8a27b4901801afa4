"""A zombie whose transactional id no other producer uses is fenced only by its group (KIP-447).

The tests cover each protocol, each assignor, static membership and both clients. The zombie continues immediately after
it wakes up, or after its client has learnt of the rebalance.
"""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from harness.clients import librdkafka
from harness.clients.interface import ProducerSettings
from harness.cluster import ClusterSpec
from harness.cluster.local import LocalCluster
from harness.environment import PreparedEnvironment
from harness.environment.cache import cache_folder
from harness.environment.java import jvm_flags, jvm_library
from harness.environment.prepare import prepare
from harness.environment.resources import PortBlock
from harness.environment.versions import CLIENTS, DEFAULT_KAFKA
from harness.model.pipeline import TopicSpec
from harness.processes.messages import encode
from harness.processes.spawn import Supervisor
from harness.processes.specs import ClientSpec, JvmSpec, MembershipSpec
from tests.support.member import MemberSpec

GROUPS = (("classic", "eager"), ("classic", "cooperative"), ("consumer", None))
FENCED_ERRORS = {"abortable", "fenced", "fatal"}


@pytest.fixture(scope="module")
def ready() -> PreparedEnvironment:
    return prepare(DEFAULT_KAFKA, "auto", "auto", cache_folder(), print)


@pytest.fixture(scope="module")
def cluster(ready: PreparedEnvironment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster with a topic of one partition and a hundred records."""
    with Supervisor() as supervisor, PortBlock(ready.cache) as ports:
        spec, folder = ClusterSpec(endpoints=("w0",)), tmp_path_factory.mktemp("cluster")
        with LocalCluster(spec, folder, ready, supervisor, ports.take) as started:
            started.create_topics([TopicSpec("in", 1), TopicSpec("out", 1)], 60)
            producer = Producer(librdkafka.idempotent_producer(ProducerSettings(started.bootstrap)))
            for n in range(100):
                producer.produce("in", b"%d" % n)
            assert producer.flush(60) == 0
            yield started


class Member:
    """A process of `tests.support.member`."""

    def __init__(self, spec: MemberSpec) -> None:
        command = [sys.executable, "-P", "-m", "tests.support.member", encode(spec).decode()]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
        )

    def send_command(self, command: str) -> dict[str, Any]:
        """Send a command, and return the reply."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        # A JVM writes its log to standard output too.
        line = next(line for line in self.process.stdout if line.startswith("{"))
        reply: dict[str, Any] = json.loads(line)
        return reply


@contextmanager
def member(spec: MemberSpec) -> Iterator[Member]:
    started = Member(spec)
    try:
        yield started
    finally:
        started.process.kill()
        started.process.wait()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("delay_s", [0.0, 1.5])
@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize(("protocol", "assignor"), GROUPS)
@pytest.mark.parametrize("client", CLIENTS)
def test_the_group_fences_a_zombie_whose_transactional_id_is_unused(
    client: str,
    protocol: str,
    assignor: str | None,
    static: bool,
    delay_s: float,
    cluster: LocalCluster,
    ready: PreparedEnvironment,
    tmp_path: Path,
) -> None:
    jvm = JvmSpec(
        jvm_library(ready.java), tuple(ready.kafka.class_path), tmp_path, tuple(jvm_flags(ready.java))
    )
    group = f"{client}-{protocol}-{assignor}-{static}-{delay_s}"
    spec = MemberSpec(
        name="w-1.0",
        worker="w-1",
        bootstrap=cluster.bootstrap,
        group=group,
        client=ClientSpec(client, jvm=jvm),
        membership=MembershipSpec(protocol, assignor, static),
        delay_s=delay_s,
    )
    with member(spec) as zombie:
        claims = zombie.send_command("poll")["claims"]
        assert claims == {"in/0": [0, 5]}
        zombie.process.send_signal(signal.SIGSTOP)
        try:
            with member(replace(spec, name="w-1.1", delay_s=0.0)) as other:
                assert other.send_command("poll")["claims"] == claims
                assert other.send_command("send") == {"failure": None}
        finally:
            zombie.process.send_signal(signal.SIGCONT)
        reply = zombie.send_command("send")
        print(group, reply)  # noqa: T201 - shows which error fenced it
        assert reply["failure"] in FENCED_ERRORS, reply
        assert cluster.committed_offsets(group)["in", 0] == 5
