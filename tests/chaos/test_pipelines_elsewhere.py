"""Custom pipelines on a shared cluster, and on containers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

import fencepost
from fencepost.api import Result
from harness.cluster import ClusterSpec
from harness.cluster.local import LocalCluster
from harness.environment.cache import cache_folder
from harness.environment.prepare import prepare
from harness.environment.resources import PortBlock
from harness.environment.versions import DEFAULT_KAFKA
from harness.model.pipeline import TopicSpec
from harness.processes.spawn import Supervisor
from tests.support.docker_engine import unavailable_reason
from tests.support.needs import skip_or_fail

BILLING = Path(__file__).resolve().parents[2] / "examples" / "billing"
ENDPOINT = "guests"
OTHER_TOPIC = "purchases"
"""A topic of another user with the same name as in pipeline.toml. A run must not touch it."""


pytestmark = pytest.mark.usefixtures("python_of_examples")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    ready = prepare(DEFAULT_KAFKA, "auto", "auto", cache_folder(), print)
    folder = tmp_path_factory.mktemp("cluster")
    with (
        Supervisor() as supervisor,
        PortBlock(ready.cache) as ports,
        LocalCluster(ClusterSpec(endpoints=(ENDPOINT,)), folder, ready, supervisor, ports.take) as cluster,
    ):
        cluster.create_topics([TopicSpec(OTHER_TOPIC, 1)], 60)
        yield cluster


def topics_of(cluster: LocalCluster) -> set[str]:
    listed = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(timeout=30).topics
    return {name for name in listed if not name.startswith("__")}


def run(file: str, folder: Path, **options: Any) -> Result:
    defaults = {"nemesis": "kill-instance,pause-instance@offsets-added", "time_limit": 50, "seed": 3}
    return fencepost.run(pipeline=str(BILLING / file), store=str(folder), **{**defaults, **options})


@pytest.mark.parametrize("permits", [("workers",), ("workers", "links")], ids=["workers", "links"])
def test_a_correct_program_is_valid_on_a_cluster_with_topics_of_its_names(
    permits: tuple[str, ...], cluster: LocalCluster, tmp_path: Path
) -> None:
    before = topics_of(cluster)
    more = {"nemesis": "kill-instance,pause-instance@offsets-added,partition"} if "links" in permits else {}
    result = run(
        "pipeline.toml",
        tmp_path,
        cluster="external",
        bootstrap=cluster.bootstrap_for(ENDPOINT),
        permits=permits,
        **more,
    )
    result.assert_valid()
    assert result.verdict["coverage"]["committed"] > 0
    assert topics_of(cluster) == before
    assert cluster.log_offsets([OTHER_TOPIC])[OTHER_TOPIC, 0] == (0, 0, 0)


def test_a_wrong_program_is_caught_on_a_shared_cluster(cluster: LocalCluster, tmp_path: Path) -> None:
    result = run(
        "offsets-after.toml",
        tmp_path,
        cluster="external",
        bootstrap=cluster.bootstrap_for(ENDPOINT),
        nemesis="kill-instance",
    )
    assert result.valid is False, result.explain()
    anomalies = result.anomalies
    assert "offset-output-mismatch" in anomalies, result.explain()
    assert anomalies <= {"offset-output-mismatch", "reprocessed-input"}, result.explain()


@pytest.fixture
def docker() -> None:
    if words := unavailable_reason():
        skip_or_fail("docker", words)


@pytest.mark.usefixtures("docker")
def test_a_correct_program_is_valid_on_containers(tmp_path: Path) -> None:
    run("pipeline.toml", tmp_path, cluster="docker", image="bundled").assert_valid()


@pytest.mark.usefixtures("docker")
def test_a_wrong_program_is_caught_on_containers(tmp_path: Path) -> None:
    result = run("offsets-after.toml", tmp_path, cluster="docker", image="bundled", nemesis="kill-instance")
    assert result.valid is False, result.explain()
