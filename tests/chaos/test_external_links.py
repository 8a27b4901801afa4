"""An external cluster, if faults may cut the links of the run's own clients."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

import fencepost
from fencepost.api import Result
from harness.cluster import ClusterSpec
from harness.environment import PreparedEnvironment
from harness.environment.cache import cache_folder
from harness.environment.prepare import prepare
from harness.environment.resources import PortBlock
from harness.environment.versions import DEFAULT_KAFKA
from harness.processes.spawn import Supervisor
from tests.support.secured_cluster import FENCEPOST_RIGHTS, PASSWORD, SecuredCluster
from workloads.defects import DEFECTS
from workloads.registry import WORKLOADS

ENDPOINT = "guests"
INTERVAL_S = 0.2


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    """A cluster with TLS, SASL and ACLs."""
    ready: PreparedEnvironment = prepare(DEFAULT_KAFKA, "auto", "auto", cache_folder(), print)
    with Supervisor() as supervisor, PortBlock(ready.cache) as ports:
        spec, folder = ClusterSpec(endpoints=(ENDPOINT,)), tmp_path_factory.mktemp("cluster")
        with SecuredCluster(spec, folder, ready, supervisor, ports.take) as cluster:
            cluster.create_user(*FENCEPOST_RIGHTS)
            yield cluster


def run(folder: Path, cluster: SecuredCluster, **options: Any) -> Result:
    config = cluster.client_config(folder / "client.properties")
    settings = {
        "bootstrap": cluster.bootstrap_for(ENDPOINT),
        "client_config": str(config),
        "seed": 5,
        "time_limit": 20,
    }
    options_of_run = {**settings, "permits": "workers,links", "store": str(folder / "store"), **options}
    return fencepost.run(cluster="external", **options_of_run)


@contextmanager
def watch_dialed_ports(folder: Path) -> Iterator[dict[str, set[int]]]:
    """Record the ports that the clients of a run dial, by role."""
    dialed: dict[str, set[int]] = {}
    stopping = threading.Event()

    def watch() -> None:
        while not stopping.wait(INTERVAL_S):
            for process in psutil.process_iter():
                try:
                    words = " ".join(process.cmdline())
                    if str(folder) not in words or '"role"' not in words:
                        continue
                    role = words.partition('"role": "')[2].partition('"')[0]
                    for connection in process.net_connections("tcp"):
                        if connection.raddr:
                            dialed.setdefault(role, set()).add(connection.raddr.port)
                except psutil.Error:
                    continue

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield dialed
    finally:
        stopping.set()
        thread.join()


@pytest.mark.parametrize("client", ["librdkafka", "java"])
def test_a_worker_is_cut_off_and_no_client_bypasses_the_proxies(
    cluster: SecuredCluster, tmp_path: Path, client: str
) -> None:
    listeners = set(cluster.layout.listeners.values())
    proxied = {link.listen_port for link in cluster.layout.links.values()}
    with watch_dialed_ports(tmp_path) as dialed:
        result = run(tmp_path, cluster, nemesis="partition", client=client)
    result.assert_valid()
    (cut, *_) = [fault for fault in result.verdict["faults"] if fault["fault"] == "partition"]
    assert cut["acted"], cut
    assert "a request through it stays unanswered, and one that bypasses it is answered" in str(cut)
    for role in ("worker", "feeder", "observer"):
        assert dialed[role]
        assert not dialed[role] & (listeners | proxied), role
    assert dialed["final"] & proxied, "final readers must connect to the cluster itself"
    files = [
        path for path in result.folder.rglob("*") if path.is_file() and PASSWORD.encode() in path.read_bytes()
    ]
    assert files == []


@pytest.mark.parametrize("defect", ["no-idempotence", "ignore-unknown-commit"])
def test_a_defect_that_lost_responses_reveal_is_caught(
    cluster: SecuredCluster, tmp_path: Path, defect: str
) -> None:
    suitable = next(workload.name for workload in WORKLOADS.values() if DEFECTS[defect].fits(workload))
    result = run(tmp_path, cluster, defect=defect, workload=suitable)
    assert result.valid is False, result.explain()
    assert set(result.verdict["anomalies"]) & DEFECTS[defect].anomalies, result.explain()


def test_links_that_are_not_permitted_are_not_cut(cluster: SecuredCluster, tmp_path: Path) -> None:
    with pytest.raises(fencepost.FencepostFailed, match="external --set permits=links") as failed:
        run(tmp_path, cluster, permits=None, nemesis="partition")
    assert failed.value.exit_status == 2
