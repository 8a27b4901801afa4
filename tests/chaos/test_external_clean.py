"""`fencepost clean` on a shared cluster: it lists and deletes the topics and groups of killed runs, and no others."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AclOperation, AdminClient, ResourceType

from harness.cluster import ClusterSpec
from harness.cluster.local import LocalCluster
from harness.common.waiting import wait_for
from harness.environment import PreparedEnvironment
from harness.environment.cache import cache_folder
from harness.environment.prepare import prepare
from harness.environment.resources import PortBlock
from harness.environment.versions import DEFAULT_KAFKA
from harness.model.pipeline import TopicSpec
from harness.processes.spawn import Supervisor
from harness.settings.kinds import tag_of
from tests.support.secured_cluster import FENCEPOST_RIGHTS, PASSWORD, SecuredCluster
from tests.support.started_runs import COMMAND, has_commits, start_run

ENDPOINT = "guests"
RUNNING_TAG = "fencepost-0a1b2c"
"""The tag of a run that is not over: its records are old, and its group has a member."""
EMPTY_TAG = "fencepost-0d0e0f"
OTHER_TOPICS = (
    "fencepost-mine",
    "fencepost-3fa91c7-x",
    "team.fencepost-3fa91c-x",
    "fencepost-facade-3fa91c-x",
)
"""Topics that belong to no run with the prefix, or may belong to a run with a longer prefix."""
WITHIN_S = 60
LONG_AGO_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., LocalCluster]]:
    ready: PreparedEnvironment = prepare(DEFAULT_KAFKA, "auto", "auto", cache_folder(), print)
    with Supervisor() as supervisor, PortBlock(ready.cache) as ports:
        yield lambda kind: kind(
            ClusterSpec(endpoints=(ENDPOINT,)),
            tmp_path_factory.mktemp("cluster"),
            ready,
            supervisor,
            ports.take,
        )


@pytest.fixture(scope="module")
def cluster(start: Callable[..., LocalCluster]) -> Iterator[LocalCluster]:
    with start(LocalCluster) as cluster:
        config = {"retention.ms": "-1"}  # as for topics of a run, or a broker deletes records that are so old
        names = (*OTHER_TOPICS, f"{RUNNING_TAG}-in")
        cluster.create_topics([TopicSpec(name, 1, config=config) for name in names], WITHIN_S)
        yield cluster


@pytest.fixture
def running_group(cluster: LocalCluster) -> Iterator[None]:
    """Keep a member in the group of the run that is not over, during a test."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    producer.produce(f"{RUNNING_TAG}-in", b"a record", timestamp=LONG_AGO_MS)
    assert producer.flush(WITHIN_S) == 0
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": f"{RUNNING_TAG}-g"}
    with closing(Consumer(settings | {"auto.offset.reset": "earliest"})) as consumer:
        consumer.subscribe([f"{RUNNING_TAG}-in"])
        wait_for(lambda: consumer.poll(0.1), "the group to read", WITHIN_S)
        yield


def topics_of(cluster: LocalCluster) -> set[str]:
    listed = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(timeout=WITHIN_S).topics
    return {name for name in listed if not name.startswith("__")}


def groups_of(cluster: LocalCluster) -> set[str]:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    return {group.group_id for group in admin.list_consumer_groups().result(WITHIN_S).valid}


def clean(cluster: LocalCluster, *options: str) -> "subprocess.CompletedProcess[str]":
    at = ("--cluster", "external", "--set", f"bootstrap={cluster.bootstrap_for(ENDPOINT)}")
    command = [*COMMAND, "clean", *at, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    print(f"$ fencepost clean {' '.join(options)}\n{done.stdout}{done.stderr}-> {done.returncode}")  # noqa: T201
    return done


def listing(cluster: LocalCluster, *options: str) -> dict[str, dict[str, Any]]:
    """Return the objects of `clean --json`, by tag."""
    done = clean(cluster, "--json", *options)
    assert done.returncode == 0, done.stderr
    return {entry["tag"]: entry for entry in json.loads(done.stdout)}


def kill_a_run(folder: Path, cluster: LocalCluster, *options: str) -> str:
    """Start a run, kill its process group after it has committed transactions, and return its tag."""
    at = ("--cluster", "external", "--set", f"bootstrap={cluster.bootstrap_for(ENDPOINT)}")
    brief = ("--nemesis", "none", "--time-limit", "120", "--rate", "50", "--store", str(folder / "store"))
    before = topics_of(cluster)
    with start_run(folder / "log", *at, *brief, *options) as run:
        run.await_output(has_commits, "transactions to be committed")
        os.killpg(run.process.pid, signal.SIGKILL)
        run.process.wait()
        run.await_no_leftovers()
    (tag,) = {tag_of(name, "fencepost") for name in topics_of(cluster) - before}
    assert tag is not None
    return tag


@pytest.mark.usefixtures("running_group")
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_clean_deletes_only_topics_and_groups_of_idle_runs(
    cluster: LocalCluster, tmp_path: Path, protocol: str
) -> None:
    before = topics_of(cluster)
    groups_before = groups_of(cluster)
    tag = kill_a_run(tmp_path, cluster, "--group-protocol", protocol)
    at = time.time() * 1000
    run_topics, run_groups = topics_of(cluster) - before, groups_of(cluster) - groups_before
    assert run_topics and run_groups

    listed = listing(cluster)
    assert set(listed[tag]["topics"]) == run_topics
    assert {group["name"] for group in listed[tag]["groups"]} == run_groups
    assert at - 120_000 < listed[tag]["last_record_ms"] < at + 60_000
    assert listed[RUNNING_TAG]["groups"] == [{"name": f"{RUNNING_TAG}-g", "members": 1}]
    assert listed[RUNNING_TAG]["last_record_ms"] == LONG_AGO_MS
    assert not listed["fencepost-facade"]["idle"], "it may be of a run with that prefix"
    assert listed.keys() == {tag, RUNNING_TAG, "fencepost-facade"}

    after_delete = listing(cluster, "--delete")
    assert not any(entry["idle"] for entry in after_delete.values())
    assert topics_of(cluster) == before | run_topics

    def without_members_and_idle() -> bool:
        """The members of killed workers stay until their sessions time out."""
        return bool(listing(cluster, "--idle", "1s", tag)[tag]["idle"])

    wait_for(without_members_and_idle, "the killed run to be idle", 120)
    assert topics_of(cluster) == before | run_topics, "listing deletes nothing"

    deleted = clean(cluster, "--delete", "--idle", "1s")
    assert deleted.returncode == 0
    assert f"{tag}  {len(run_topics)} topics" in deleted.stdout
    wait_for(lambda: topics_of(cluster) == before, "the topics to be gone", WITHIN_S)
    wait_for(lambda: groups_of(cluster) == groups_before, "the groups to be gone", WITHIN_S)
    assert listing(cluster).keys() == {RUNNING_TAG, "fencepost-facade"}
    assert clean(cluster, "--delete", tag).returncode == 2


def test_topics_without_records_are_deleted_only_by_their_tag(cluster: LocalCluster) -> None:
    cluster.create_topics([TopicSpec(f"{EMPTY_TAG}-in", 3)], WITHIN_S)
    listed = clean(cluster, "--delete", "--idle", "1s")
    assert (
        f"{EMPTY_TAG}  1 topic, 0 groups, no records; left alone: a run with this tag may be starting"
        in listed.stdout
    )
    done = clean(cluster, "--delete", "--idle", "1s", EMPTY_TAG)
    assert (done.returncode, done.stdout) == (0, f"{EMPTY_TAG}  1 topic, 0 groups, no records; deleted\n")


def test_a_broker_that_does_not_answer_ends_clean_with_status_4(cluster: LocalCluster) -> None:
    cluster.brokers[1].pause()
    try:
        done = clean(cluster)
    finally:
        cluster.brokers[1].resume()
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (4, "", 1)
    assert "broker 2 advertises" in done.stderr
    cluster.await_in_sync(WITHIN_S)


def test_a_forbidden_deletion_names_the_acl_and_ends_with_status_4(
    start: Callable[..., LocalCluster], tmp_path: Path
) -> None:
    with start(SecuredCluster) as cluster:
        assert isinstance(cluster, SecuredCluster)
        cluster.create_user(
            *(
                acl
                for acl in FENCEPOST_RIGHTS
                if acl[0] is ResourceType.TOPIC and acl[3] is not AclOperation.DELETE
            )
        )
        cluster.create_topics([TopicSpec(f"{EMPTY_TAG}-in", 1), TopicSpec("another-users", 1)], WITHIN_S)
        options = ("--set", f"client-config={cluster.client_config(tmp_path / 'client.properties')}")
        undescribed = clean(cluster, *options, "--delete", "--idle", "1s", EMPTY_TAG)
        assert (undescribed.returncode, f"{EMPTY_TAG}-in" in topics_of(cluster)) == (4, True)
        assert "left alone" in undescribed.stdout and "--group fencepost- " in undescribed.stdout
        cluster.create_user(*(acl for acl in FENCEPOST_RIGHTS if acl[3] is not AclOperation.DELETE))
        refused = clean(cluster, *options, "--delete", "--idle", "1s", EMPTY_TAG)
        assert refused.returncode == 4
        assert f"{EMPTY_TAG}-in was not removed" in refused.stdout
        assert "--operation Delete" in refused.stdout and "--topic fencepost- " in refused.stdout
        assert f"{EMPTY_TAG}-in" in topics_of(cluster)
        cluster.create_user(*FENCEPOST_RIGHTS)
        done = clean(cluster, *options, "--delete", "--idle", "1s", EMPTY_TAG)
        assert done.returncode == 0
        wait_for(lambda: topics_of(cluster) == {"another-users"}, "the topic to be gone", WITHIN_S)
        assert PASSWORD not in refused.stdout + refused.stderr + done.stdout + done.stderr
