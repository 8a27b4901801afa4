"""What a killed run has left on a cluster that others use: listed, and deleted without touching what is theirs."""

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
from harness.environment.ports import PortBlock
from harness.environment.prepare import prepare
from harness.model.pipeline import TopicSpec
from harness.processes.spawn import Supervisor
from harness.settings.tags import tag_of
from tests.support.secured_cluster import OWN, PASSWORD, SecuredCluster
from tests.support.started_runs import COMMAND, started, working

ENDPOINT = "guests"
LIVE = "fencepost-0a1b2c"
"""The tag of a run that goes on: its records are old, and its group has a member."""
BLANK = "fencepost-0d0e0f"
MINE = ("fencepost-mine", "fencepost-3fa91c7-x", "team.fencepost-3fa91c-x", "fencepost-facade-3fa91c-x")
"""What is of no run with the prefix, or may be of one with a longer prefix."""
WITHIN_S = 60
LONG_AGO_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., LocalCluster]]:
    ready: PreparedEnvironment = prepare("4.3.1", "auto", "auto", cache_folder(), print)
    with Supervisor() as supervisor, PortBlock(ready.cache) as ports:
        yield lambda kind: kind(
            ClusterSpec(endpoints=(ENDPOINT,)),
            tmp_path_factory.mktemp("theirs"),
            ready,
            supervisor,
            ports.take,
        )


@pytest.fixture(scope="module")
def theirs(start: Callable[..., LocalCluster]) -> Iterator[LocalCluster]:
    with start(LocalCluster) as cluster:
        kept = {"retention.ms": "-1"}  # as the topics of a run: else a broker deletes what is so old
        names = (*MINE, f"{LIVE}-in")
        cluster.create_topics([TopicSpec(name, 1, config=kept) for name in names], WITHIN_S)
        yield cluster


@pytest.fixture
def live(theirs: LocalCluster) -> Iterator[None]:
    """A member of the live group, for as long as the test lasts."""
    producer = Producer({"bootstrap.servers": theirs.bootstrap})
    producer.produce(f"{LIVE}-in", b"theirs", timestamp=LONG_AGO_MS)
    assert producer.flush(WITHIN_S) == 0
    told = {"bootstrap.servers": theirs.bootstrap, "group.id": f"{LIVE}-g", "auto.offset.reset": "earliest"}
    with closing(Consumer(told)) as consumer:
        consumer.subscribe([f"{LIVE}-in"])
        wait_for(lambda: consumer.poll(0.1), "the live group to read", WITHIN_S)
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


def told(cluster: LocalCluster, *options: str) -> dict[str, dict[str, Any]]:
    """What `clean --json` says, by tag."""
    done = clean(cluster, "--json", *options)
    assert done.returncode == 0, done.stderr
    return {one["tag"]: one for one in json.loads(done.stdout)}


def killed(place: Path, cluster: LocalCluster, *options: str) -> str:
    """The tag of a run that was killed with its whole process group once it had committed transactions."""
    at = ("--cluster", "external", "--set", f"bootstrap={cluster.bootstrap_for(ENDPOINT)}")
    brief = ("--nemesis", "none", "--time-limit", "120", "--rate", "50", "--store", str(place / "store"))
    before = topics_of(cluster)
    with started(place / "log", *at, *brief, *options) as run:
        run.await_said(working, "transactions to be committed")
        os.killpg(run.process.pid, signal.SIGKILL)
        run.process.wait()
        run.await_nothing_left()
    (tag,) = {tag_of(name, "fencepost") for name in topics_of(cluster) - before}
    assert tag is not None
    return tag


@pytest.mark.usefixtures("live")
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_what_a_killed_run_has_left_is_deleted_once_it_is_idle_and_nothing_else(
    theirs: LocalCluster, tmp_path: Path, protocol: str
) -> None:
    before = topics_of(theirs)
    groups_before = groups_of(theirs)
    tag = killed(tmp_path, theirs, "--group-protocol", protocol)
    at = time.time() * 1000
    its_topics, its_groups = topics_of(theirs) - before, groups_of(theirs) - groups_before
    assert its_topics and its_groups

    left = told(theirs)
    assert set(left[tag]["topics"]) == its_topics
    assert {group["name"] for group in left[tag]["groups"]} == its_groups
    assert at - 120_000 < left[tag]["last_record_ms"] < at + 60_000
    assert left[LIVE]["groups"] == [{"name": f"{LIVE}-g", "members": 1}]
    assert left[LIVE]["last_record_ms"] == LONG_AGO_MS
    assert not left["fencepost-facade"]["idle"], "it may be of a run with that prefix"
    assert left.keys() == {tag, LIVE, "fencepost-facade"}

    kept = told(theirs, "--delete")
    assert not any(one["idle"] for one in kept.values())
    assert topics_of(theirs) == before | its_topics

    def without_members_and_idle() -> bool:
        """The members of workers that were killed last until their sessions are over."""
        return bool(told(theirs, "--idle", "1s", tag)[tag]["idle"])

    wait_for(without_members_and_idle, "the killed run to be idle", 120)
    assert topics_of(theirs) == before | its_topics, "what is only listed stays"

    deleted = clean(theirs, "--delete", "--idle", "1s")
    assert deleted.returncode == 0
    assert f"{tag}  {len(its_topics)} topics" in deleted.stdout
    wait_for(lambda: topics_of(theirs) == before, "the topics to be gone", WITHIN_S)
    wait_for(lambda: groups_of(theirs) == groups_before, "the groups to be gone", WITHIN_S)
    assert told(theirs).keys() == {LIVE, "fencepost-facade"}
    assert clean(theirs, "--delete", tag).returncode == 2


def test_topics_without_records_are_deleted_only_by_their_tag(theirs: LocalCluster) -> None:
    theirs.create_topics([TopicSpec(f"{BLANK}-in", 3)], WITHIN_S)
    left = clean(theirs, "--delete", "--idle", "1s")
    assert (
        f"{BLANK}  1 topic, 0 groups, no records; left alone: a run with this tag may be starting"
        in left.stdout
    )
    done = clean(theirs, "--delete", "--idle", "1s", BLANK)
    assert (done.returncode, done.stdout) == (0, f"{BLANK}  1 topic, 0 groups, no records; deleted\n")


def test_a_broker_that_does_not_answer_is_told_and_4(theirs: LocalCluster) -> None:
    theirs.brokers[1].pause()
    try:
        done = clean(theirs)
    finally:
        theirs.brokers[1].resume()
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (4, "", 1)
    assert "broker 2 advertises" in done.stderr
    theirs.await_in_sync(WITHIN_S)


def test_what_acls_forbid_is_told_with_the_acl_and_4(
    start: Callable[..., LocalCluster], tmp_path: Path
) -> None:
    with start(SecuredCluster) as cluster:
        assert isinstance(cluster, SecuredCluster)
        cluster.admit(
            *(one for one in OWN if one[0] is ResourceType.TOPIC and one[3] is not AclOperation.DELETE)
        )
        cluster.create_topics([TopicSpec(f"{BLANK}-in", 1), TopicSpec("strangers", 1)], WITHIN_S)
        options = ("--set", f"client-config={cluster.client_config(tmp_path / 'client.properties')}")
        blind = clean(cluster, *options, "--delete", "--idle", "1s", BLANK)
        assert (blind.returncode, f"{BLANK}-in" in topics_of(cluster)) == (4, True)
        assert "left alone" in blind.stdout and "--group fencepost- " in blind.stdout
        cluster.admit(*(one for one in OWN if one[3] is not AclOperation.DELETE))
        refused = clean(cluster, *options, "--delete", "--idle", "1s", BLANK)
        assert refused.returncode == 4
        assert f"{BLANK}-in is left" in refused.stdout
        assert "--operation Delete" in refused.stdout and "--topic fencepost- " in refused.stdout
        assert f"{BLANK}-in" in topics_of(cluster)
        cluster.admit(*OWN)
        done = clean(cluster, *options, "--delete", "--idle", "1s", BLANK)
        assert done.returncode == 0
        wait_for(lambda: topics_of(cluster) == {"strangers"}, "the topic to be gone", WITHIN_S)
        assert PASSWORD not in refused.stdout + refused.stderr + done.stdout + done.stderr
