"""A cluster that is already there, whose links to the run's own clients may be struck."""

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
from harness.environment.ports import PortBlock
from harness.environment.prepare import prepare
from harness.processes.spawn import Supervisor
from tests.support.secured_cluster import OWN, PASSWORD, SecuredCluster
from workloads.defects.registry import DEFECTS
from workloads.registry import WORKLOADS

ENDPOINT = "guests"
LOOK_EVERY_S = 0.2


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    """With TLS, SASL and ACLs."""
    ready: PreparedEnvironment = prepare("4.3.1", "auto", "auto", cache_folder(), print)
    with Supervisor() as supervisor, PortBlock(ready.cache) as ports:
        spec, folder = ClusterSpec(endpoints=(ENDPOINT,)), tmp_path_factory.mktemp("theirs")
        with SecuredCluster(spec, folder, ready, supervisor, ports.take) as cluster:
            cluster.admit(*OWN)
            yield cluster


def run(place: Path, theirs: SecuredCluster, **options: Any) -> Result:
    config = theirs.client_config(place / "client.properties")
    told = {
        "bootstrap": theirs.bootstrap_for(ENDPOINT),
        "client_config": str(config),
        "seed": 5,
        "time_limit": 20,
    }
    chosen = {**told, "permits": "workers,links", "store": str(place / "store"), **options}
    return fencepost.run(cluster="external", **chosen)


@contextmanager
def watched(place: Path) -> Iterator[dict[str, set[int]]]:
    """By process of the run that is a client: the ports that it dialed."""
    dialed: dict[str, set[int]] = {}
    over = threading.Event()

    def watch() -> None:
        while not over.wait(LOOK_EVERY_S):
            for process in psutil.process_iter():
                try:
                    words = " ".join(process.cmdline())
                    if str(place) not in words or '"role"' not in words:
                        continue
                    role = words.partition('"role": "')[2].partition('"')[0]
                    for one in process.net_connections("tcp"):
                        if one.raddr:
                            dialed.setdefault(role, set()).add(one.raddr.port)
                except psutil.Error:
                    continue

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield dialed
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("client", ["librdkafka", "java"])
def test_a_worker_is_cut_from_a_broker_and_no_client_goes_round_the_proxies(
    theirs: SecuredCluster, tmp_path: Path, client: str
) -> None:
    listeners = set(theirs.layout.listeners.values())
    proxied = {link.listen_port for link in theirs.layout.links.values()}
    with watched(tmp_path) as dialed:
        result = run(tmp_path, theirs, nemesis="partition", client=client)
    result.assert_valid()
    (cut, *_) = [one for one in result.verdict["faults"] if one["fault"] == "partition"]
    assert cut["acted"], cut
    assert "a request through it stays unanswered, and a connection that bypasses it is answered" in str(cut)
    for role in ("worker", "feeder", "observer"):
        assert dialed[role]
        assert not dialed[role] & (listeners | proxied), role
    assert dialed["final"] & proxied, "final readers dial the cluster itself, as the user's file says"
    found = [
        path for path in result.folder.rglob("*") if path.is_file() and PASSWORD.encode() in path.read_bytes()
    ]
    assert found == []


@pytest.mark.parametrize("defect", ["no-idempotence", "ignore-unknown-commit"])
def test_a_defect_that_lost_answers_bring_to_light_is_caught(
    theirs: SecuredCluster, tmp_path: Path, defect: str
) -> None:
    able = next(workload.name for workload in WORKLOADS.values() if DEFECTS[defect].fits(workload))
    result = run(tmp_path, theirs, defect=defect, workload=able)
    assert result.valid is False, result.explain()
    assert set(result.verdict["anomalies"]) & DEFECTS[defect].anomalies, result.explain()


def test_links_that_are_not_permitted_are_not_cut(theirs: SecuredCluster, tmp_path: Path) -> None:
    with pytest.raises(fencepost.FencepostFailed, match="external --set permits=links") as failed:
        run(tmp_path, theirs, permits=None, nemesis="partition")
    assert failed.value.exit_status == 2
