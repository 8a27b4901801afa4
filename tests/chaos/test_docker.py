"""Parts that only the Docker cluster has: dropped packets, its image, and the clean-up in Docker after a kill."""

import io
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import permutations
from pathlib import Path

import pytest

import fencepost
from harness.cluster import Ability, ClusterSpec
from harness.cluster.docker import DockerCluster
from harness.common.errors import FaultFailed, StartFailed
from harness.common.waiting import wait_for
from harness.containers.container import ContainerFactory
from harness.containers.daemon import LABEL, NoDocker, connect, try_remove_abandoned
from harness.environment import PreparedEnvironment
from harness.environment.cache import Builder, Platform, cache_folder
from harness.environment.container_image import container_image
from harness.environment.prepare import prepare
from harness.environment.resources import PortBlock
from harness.environment.toxiproxy import toxiproxy_for
from harness.environment.versions import DEFAULT_KAFKA
from harness.model.pipeline import TopicSpec
from harness.network import client_link, peer_link
from harness.processes.spawn import Supervisor
from harness.wire.protocol import is_answering
from tests.support.needs import skip_or_fail
from tests.support.started_runs import kill_guardian

RUN = ["run", "--cluster", "docker", "--set", "image=bundled", "--time-limit", "20", "--nemesis", "none"]


@pytest.fixture(scope="module", autouse=True)
def docker() -> None:
    try:
        connect()
    except NoDocker as error:
        skip_or_fail("docker", str(error))


@pytest.fixture(scope="module")
def ready() -> PreparedEnvironment:
    return prepare(DEFAULT_KAFKA, "auto", "auto", cache_folder(), print, image_choice="bundled")


@pytest.fixture(scope="module")
def cluster(ready: PreparedEnvironment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerCluster]:
    folder = tmp_path_factory.mktemp("docker")
    with Supervisor() as supervisor, PortBlock(ready.cache) as ports:
        spec = ClusterSpec(endpoints=("feed", "w0"))
        with DockerCluster(spec, folder, ready, supervisor, ports.take) as started:
            started.create_topics([TopicSpec("in", 3)], 60)
            yield started


def names_in_docker() -> set[str]:
    """Return the names of all containers and networks that runs have made."""
    client = connect()
    containers = client.containers.list(all=True, filters={"label": LABEL}, ignore_removed=True)
    return {item.name for item in [*containers, *client.networks.list(filters={"label": LABEL})]}


@pytest.fixture
def new_names() -> Callable[[], set[str]]:
    """Return the names that were added to Docker since the test began. The shared cluster existed before."""
    before = names_in_docker()
    return lambda: names_in_docker() - before


@pytest.mark.parametrize("how", [Ability.PACKETS, Ability.DISCONNECT])
def test_only_the_harness_reaches_an_isolated_broker(cluster: DockerCluster, how: Ability) -> None:
    link = client_link("w0", 2)
    assert cluster.network.probe(link, 5).is_answered
    with cluster.isolate(2, how) as proof:
        assert not cluster.network.probe(link, 1).is_answered
        assert is_answering(cluster.layout.harness_port(2), 5)
        wait_for(proof, "a proof that it is isolated", 20)
        wait_for(
            lambda: all(view.leader != 2 for view in cluster.describe("in").values()), "others to lead", 40
        )
        assert cluster.bypasses() == []
    cluster.await_in_sync(60)
    wait_for(lambda: cluster.network.probe(link, 5).is_answered, "the link to pass again", 20)


def test_packets_of_a_frozen_broker_cannot_be_dropped(cluster: DockerCluster) -> None:
    cluster.brokers[2].pause()
    try:
        with (
            pytest.raises(FaultFailed, match="packet filter of broker 3"),
            cluster.isolate(3, Ability.PACKETS),
        ):
            pass
    finally:
        cluster.brokers[2].resume()
    cluster.await_in_sync(60)


def test_ports_are_published_only_on_this_host(cluster: DockerCluster) -> None:
    client = connect()
    bound = [
        binding["HostIp"]
        for container in client.containers.list(filters={"label": LABEL})
        for bindings in container.attrs["NetworkSettings"]["Ports"].values()
        for binding in bindings or ()
    ]
    assert bound and set(bound) == {"127.0.0.1"}
    assert socket.create_connection(("127.0.0.1", cluster.layout.harness_port(1)), 5).close() is None


def test_auto_builds_an_image_if_the_official_one_cannot_be_pulled(ready: PreparedEnvironment) -> None:
    messages: list[str] = []
    unreachable = "127.0.0.1:9/apache/kafka:{version}"
    image = container_image(
        connect(), "auto", ready.kafka, ready.cache, messages.append, official=unreachable
    )
    assert image.origin == "built here"
    assert f"127.0.0.1:9/apache/kafka:{DEFAULT_KAFKA} does not exist, and cannot be pulled" in messages[1]


def test_toxiproxy_is_built_for_containers_of_another_processor(ready: PreparedEnvironment) -> None:
    own_platform = Platform.of_this_machine()
    other_platform = Platform("linux", "amd64" if own_platform.machine == "arm64" else "arm64")
    with Builder() as builder:
        binary = toxiproxy_for(other_platform, "bundled", ready.cache, builder=builder)
    elf = binary.read_bytes()[:20]
    machines = {"amd64": 62, "arm64": 183}  # e_machine of the ELF header
    assert (elf[:4], int.from_bytes(elf[18:20], "little")) == (b"\x7fELF", machines[other_platform.machine])


def call_fencepost(command: list[str], tmp_path: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "fencepost", *command, "--store", str(tmp_path)],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.parametrize(
    ("more", "env", "words"),
    [
        ([], {"DOCKER_HOST": "unix:///nowhere/docker.sock"}, "no Docker daemon answers at unix:///nowhere"),
        (["--set", "image=127.0.0.1:9/none:1"], {}, "the image 127.0.0.1:9/none:1 does not exist"),
    ],
)
def test_a_missing_daemon_or_image_ends_with_one_sentence_and_status_4(
    more: list[str], env: dict[str, str], words: str, tmp_path: Path
) -> None:
    done = call_fencepost([*RUN, *more], tmp_path, **env)
    (message,) = [line for line in done.stderr.splitlines() if line.startswith("fencepost: ")]
    assert (done.returncode, words in message, "Traceback" in done.stderr) == (4, True, False), done.stderr


def test_an_image_of_another_version_is_refused(
    ready: PreparedEnvironment, new_names: Callable[[], set[str]], tmp_path: Path
) -> None:
    assert ready.image is not None
    done = call_fencepost([*RUN, "--set", f"image={ready.image.name}", "--kafka", "4.2.1"], tmp_path)
    assert done.returncode == 4
    assert f"has Kafka {DEFAULT_KAFKA}: add --kafka {DEFAULT_KAFKA}" in done.stderr
    assert new_names() == set()


LIKE_THE_OFFICIAL_IMAGE = """FROM {parent}
LABEL dev.fencepost.packet-filter=no dev.fencepost.archive=no
ENV JAVA_VERSION=jdk-{java}.0.7+6
VOLUME ["/etc/kafka/secrets", "/var/lib/kafka/data", "/mnt/shared/config"]
USER 1000
ENTRYPOINT ["/__cacert_entrypoint.sh"]
CMD ["/etc/kafka/docker/run"]
"""
"""The differences between the official image and ours, except for the files. They are from its Dockerfile in Kafka's
repository.
"""


def test_brokers_run_in_an_image_that_is_built_like_the_official_one(
    ready: PreparedEnvironment, new_names: Callable[[], set[str]], tmp_path: Path
) -> None:
    assert ready.image is not None
    client, name = connect(), "fencepost-test-official:latest"
    text = LIKE_THE_OFFICIAL_IMAGE.format(parent=ready.image.name, java=ready.image.java_version)
    volumes = {volume.name for volume in client.volumes.list()}
    client.images.build(fileobj=io.BytesIO(text.encode()), tag=name, rm=True)
    try:
        fencepost.run(
            cluster="docker",
            image=name,
            nemesis="kill-broker",
            time_limit=30,
            seed=4,
            store=str(tmp_path),
        ).assert_valid()
        done = call_fencepost(
            ["run", "--cluster", "docker", "--set", f"image={name}", "--nemesis", "drop-packets"], tmp_path
        )
        assert done.returncode == 4 and "has no label dev.fencepost.packet-filter=yes" in done.stderr, (
            done.stderr
        )
    finally:
        client.images.remove(name, force=True)
    assert new_names() == set() and {volume.name for volume in client.volumes.list()} <= volumes


@pytest.mark.parametrize("moment", range(1, 11))
def test_a_killed_run_leaves_nothing_behind_in_docker(
    moment: int, new_names: Callable[[], set[str]], tmp_path: Path
) -> None:
    """Moments 1 to 6: when two networks, the proxies and three brokers appear. The others: later, during the run."""
    run = subprocess.Popen(
        [sys.executable, "-P", "-m", "fencepost", *RUN, "--store", str(tmp_path)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    count = min(moment, 6)
    wait_for(lambda: len(new_names()) >= count, f"{count} things in Docker", 120, last_seen=new_names)
    if moment > 6:
        start_s = time.monotonic()
        wait_for(lambda: time.monotonic() - start_s > 4 * (moment - 6), "the moment of the kill", 60)
    guardian_too = moment % 2 == 0
    if guardian_too:
        kill_guardian(run.pid)
    run.kill()
    run.wait()
    if guardian_too:
        assert new_names()
        try_remove_abandoned(cache_folder())
    wait_for(lambda: not new_names(), "nothing to be left", 90, last_seen=new_names)


@pytest.mark.parametrize("workload", ["shop", "orders", "sales"])
def test_a_correct_pipeline_is_valid_on_containers(workload: str, tmp_path: Path) -> None:
    fencepost.run(
        cluster="docker",
        image="bundled",
        workload=workload,
        nemesis="drop-packets,disconnect-broker",
        time_limit=45,
        seed=2,
        store=str(tmp_path),
    ).assert_valid()


@pytest.mark.parametrize("fault", ["kill-broker", "restart-broker", "pause-broker"])
def test_a_majority_of_containers_comes_back(fault: str, tmp_path: Path) -> None:
    result = fencepost.run(
        cluster="docker",
        image="bundled",
        nemesis=f"{fault}@majority",
        time_limit=40,
        seed=2,
        store=str(tmp_path),
    )
    assert result.valid is True or "unmarked-partition" in result.anomalies, result.explain()
    assert all(report["acted"] and report["end_s"] for report in result.verdict["faults"])


def test_rules_act_on_the_links_of_clients_and_of_brokers_in_containers(tmp_path: Path) -> None:
    result = fencepost.run(
        cluster="docker",
        image="bundled",
        nemesis="late-end-txn,late-marker",
        abort_share=0.3,
        time_limit=30,
        seed=3,
        store=str(tmp_path),
    )
    faults = {fault["fault"]: fault for fault in result.verdict["faults"]}
    assert all(faults[name]["acted"] for name in ("late-end-txn", "late-marker")), faults
    assert "lost-commit" in result.anomalies and not result.verdict["warnings"]
    requests = [
        json.loads(line)["request"]
        for line in (result.folder / "protocol.jsonl").read_text().splitlines()
        if line.startswith('{"request"')
    ]
    links = {request["link"] for request in requests}
    assert {peer_link(a, b, "int") for a, b in permutations((1, 2, 3), 2)} <= links
    assert {"client:w0->1", "client:w0->2", "client:w0->3"} <= links


def test_a_machine_that_containers_cannot_reach_is_refused_in_one_sentence(
    ready: PreparedEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ContainerFactory, "machine_address", lambda self: "127.0.0.2")
    spec = ClusterSpec(endpoints=("w0",), decoded=("client",))
    with (
        Supervisor() as supervisor,
        PortBlock(ready.cache) as ports,
        pytest.raises(StartFailed, match=r"cannot reach the protocol proxy, which listens on 127\.0\.0\.2"),
        DockerCluster(spec, tmp_path, ready, supervisor, ports.take),
    ):
        pass


@pytest.mark.parametrize("defect", ["offsets-outside-transaction", "no-rewind"])
def test_a_defect_is_caught_on_containers(defect: str, tmp_path: Path) -> None:
    result = fencepost.run(
        cluster="docker", image="bundled", defect=defect, time_limit=30, seed=1, store=str(tmp_path)
    )
    assert result.valid is False, result.explain()
