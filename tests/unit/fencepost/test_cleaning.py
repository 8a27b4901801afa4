"""`fencepost clean`: its output, its deletions, and the usage that it refuses."""

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from fencepost import cleaning
from fencepost.cli import run_command_line
from harness.common.errors import EnvironmentFailure
from tests.support.guest_cluster import GuestCluster

IDLE_TAG, USED_TAG = "fencepost-3fa91c", "fencepost-0b1c2d"
CLUSTER = ("clean", "--cluster", "external", "--set", "bootstrap=a:1")
MINUTE_MS = 60_000
Fencepost = Callable[..., tuple[int, str, str]]


def ago_ms(minutes: float) -> int:
    return int(time.time() * 1000 - minutes * MINUTE_MS)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> GuestCluster:
    """A cluster with the leftovers of a killed run, and with a run that is still active."""
    guest = GuestCluster(
        {f"{IDLE_TAG}-in": ago_ms(192), f"{IDLE_TAG}-out": -1, f"{USED_TAG}-in": ago_ms(0)},
        {f"{IDLE_TAG}-shop": 0, f"{USED_TAG}-shop": 3},
    )
    guest.install(monkeypatch)
    monkeypatch.setattr(cleaning, "reach_brokers", lambda servers: guest.brokers)
    return guest


@pytest.fixture
def fencepost(capfd: pytest.CaptureFixture[str]) -> Fencepost:
    def call(*arguments: str) -> tuple[int, str, str]:
        status = run_command_line(arguments)
        output = capfd.readouterr()
        return status, output.out, output.err

    return call


def test_without_delete_all_tags_are_listed_and_kept(cluster: GuestCluster, fencepost: Fencepost) -> None:
    status, output, _ = fencepost(*CLUSTER)
    assert status == 0
    assert output.splitlines() == [
        f"{USED_TAG}  1 topic, 1 group, written 0 s ago; still in use: the group {USED_TAG}-shop has 3 members",
        f"{IDLE_TAG}  2 topics, 1 group without members, written 3 h 12 min ago; idle",
        "to delete the idle tags: fencepost clean --cluster external --set bootstrap=a:1 --delete",
    ]
    assert len(cluster.last_write_ms) == 3


def test_the_suggested_command_has_the_same_options_and_no_secret(
    cluster: GuestCluster, fencepost: Fencepost, tmp_path: Path
) -> None:
    config = tmp_path / "client.properties"
    config.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config="
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="4711";\n'
    )
    _, output, _ = fencepost(*CLUSTER, "--set", f"client-config={config}", "--idle", "2h", IDLE_TAG)
    assert output.endswith(f"--set client-config={config} --delete --idle 2h {IDLE_TAG}\n")
    assert "4711" not in output
    assert USED_TAG not in output


def test_delete_removes_idle_tags_and_says_why_it_keeps_the_others(
    cluster: GuestCluster, fencepost: Fencepost
) -> None:
    cluster.members[f"{USED_TAG}-shop"] = 0
    status, output, _ = fencepost(*CLUSTER, "--delete")
    assert status == 0
    assert output.splitlines() == [
        f"{USED_TAG}  1 topic, 1 group without members, written 0 s ago; less than --idle 10m",
        f"{IDLE_TAG}  2 topics, 1 group without members, written 3 h 12 min ago; deleted",
    ]
    assert cluster.last_write_ms.keys() == {f"{USED_TAG}-in"}
    assert cluster.members.keys() == {f"{USED_TAG}-shop"}
    assert fencepost(*CLUSTER, "--delete", IDLE_TAG)[0] == 2
    cluster.last_write_ms.clear()
    cluster.members.clear()
    assert fencepost(*CLUSTER, "--delete") == (0, "nothing was left\n", "")


def test_json_is_a_list_of_objects_and_messages_go_to_standard_error(
    cluster: GuestCluster, fencepost: Fencepost
) -> None:
    _, entries_json, messages = fencepost(*CLUSTER, "--json")
    assert "to delete the idle tags" in messages
    used, idle = json.loads(entries_json)
    assert (used["idle"], used["groups"]) == (False, [{"name": f"{USED_TAG}-shop", "members": 3}])
    assert (idle["tag"], idle["idle"], idle["because"]) == (IDLE_TAG, True, None)
    assert idle["last_record_ms"] == cluster.last_write_ms[f"{IDLE_TAG}-in"]
    _, deleted, _ = fencepost(*CLUSTER, "--json", "--delete", IDLE_TAG)
    (output,) = json.loads(deleted)
    assert output["deleted"] == {
        "topics": [f"{IDLE_TAG}-in", f"{IDLE_TAG}-out"],
        "groups": [f"{IDLE_TAG}-shop"],
    }
    assert output["failures"] == []


def test_a_topic_that_acls_protect_is_reported_with_status_4(
    cluster: GuestCluster, fencepost: Fencepost
) -> None:
    cluster.forbidden = {f"{IDLE_TAG}-in"}
    status, output, _ = fencepost(*CLUSTER, "--delete")
    assert status == 4
    assert "deleted 1 of 2 topics and 1 of 1 group\n" in output
    assert f"  {IDLE_TAG}-in was not removed: the cluster's ACLs do not allow" in output
    assert cluster.last_write_ms.keys() == {f"{IDLE_TAG}-in", f"{USED_TAG}-in"}


def test_a_tag_without_records_is_kept_unless_it_is_named(
    cluster: GuestCluster, fencepost: Fencepost
) -> None:
    """A run that is starting has topics, but no records and no members."""
    cluster.last_write_ms = {f"{IDLE_TAG}-in": -1}
    cluster.members = {}
    status, output, _ = fencepost(*CLUSTER, "--delete", "--idle", "1s")
    assert (status, output) == (
        0,
        (
            f"{IDLE_TAG}  1 topic, 0 groups, no records; left alone: a run with this tag may be starting; "
            "if none is, name the tag to delete it\n"
        ),
    )
    _, output, _ = fencepost(*CLUSTER, "--delete", IDLE_TAG)
    assert output == f"{IDLE_TAG}  1 topic, 0 groups, no records; deleted\n"
    assert not cluster.last_write_ms


def test_each_tag_is_examined_again_before_its_deletion(
    cluster: GuestCluster, fencepost: Fencepost, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.last_write_ms = {
        f"{tag}-in": ago_ms(192) for tag in ("fencepost-000001", "fencepost-000002", IDLE_TAG)
    }
    cluster.members = {}
    delete = cluster.delete_topics

    def delete_after_a_change(at: int, topics: Sequence[str], timeout_s: float) -> None:
        cluster.members = {f"{IDLE_TAG}-shop": 3}  # meanwhile one tag is used, and another is gone
        cluster.last_write_ms.pop("fencepost-000002-in", None)
        delete(at, topics, timeout_s)

    monkeypatch.setattr("harness.cluster.operations.delete_topics", delete_after_a_change)
    status, output, _ = fencepost(*CLUSTER, "--delete", "--json")
    assert status == 0
    assert [(entry["tag"], "deleted" in entry) for entry in json.loads(output)] == [
        ("fencepost-000001", True),
        (IDLE_TAG, False),
    ]
    assert cluster.last_write_ms.keys() == {f"{IDLE_TAG}-in"}


def test_a_tag_whose_use_is_not_known_fails_only_with_delete(
    cluster: GuestCluster, fencepost: Fencepost
) -> None:
    cluster.hidden = True
    status, output, _ = fencepost(*CLUSTER)
    assert status == 0
    assert output.count("left alone: the cluster's ACLs do not allow") == 2
    assert "to delete" not in output
    assert fencepost(*CLUSTER, "--delete")[0] == 4
    assert len(cluster.last_write_ms) == 3


@pytest.mark.parametrize(
    ("arguments", "messages"),
    [
        (("clean", IDLE_TAG), f"the tag {IDLE_TAG} needs an external cluster"),
        (("clean", "--delete"), "--delete needs an external cluster"),
        (("clean", "--idle", "1h"), "--idle needs an external cluster"),
        (("clean", "--cluster", "local", "--delete"), "--delete needs an external cluster"),
        (("clean", "--cluster", "docker", IDLE_TAG), "needs an external cluster"),
        (("clean", "--set", "bootstrap=a:1"), "--set bootstrap needs --cluster external"),
        (("clean", "--set", "prefix=x"), "--set prefix needs --cluster external"),
        (("clean", "--cluster", "external"), "--cluster external needs --set bootstrap"),
        ((*CLUSTER, "--set", "rate=3"), "clean has no option rate"),
        ((*CLUSTER, "--idle", "soon"), "idle must be a duration, such as"),
        ((*CLUSTER, "--idle", "0"), "idle must be a duration, such as"),
        ((*CLUSTER, "fencepost-mine"), '"fencepost-mine" is not a tag'),
        ((*CLUSTER, f"{IDLE_TAG}-in"), "is not a tag"),
        ((*CLUSTER, "--set", "prefix=x", IDLE_TAG), "a tag is x- and six hex digits"),
        ((*CLUSTER, "fencepost-aaaaaa"), "nothing on the cluster has the tag fencepost-aaaaaa"),
    ],
)
def test_options_that_exclude_each_other_are_one_sentence_and_status_2(
    cluster: GuestCluster, fencepost: Fencepost, arguments: Sequence[str], messages: str
) -> None:
    before = dict(cluster.last_write_ms)
    status, output, error = fencepost(*arguments)
    assert (status, output) == (2, "")
    assert messages in error
    assert error.count("\n") == 1
    assert cluster.last_write_ms == before


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaning, "sweep_leftovers", lambda: ["process 4711 (java)", "folder /tmp/x"])
    monkeypatch.setattr(cleaning, "remove_abandoned", lambda cache: ["container kafka-1"])


@pytest.mark.usefixtures("machine")
def test_each_removed_leftover_of_the_machine_has_a_line(
    fencepost: Fencepost, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["removed: process 4711 (java)", "removed: folder /tmp/x", "removed: container kafka-1"]
    assert fencepost("clean") == (0, "".join(f"{line}\n" for line in lines), "")
    _, output, _ = fencepost("clean", "--json")
    assert json.loads(output)[0] == {"removed": "process 4711 (java)"}
    monkeypatch.setattr(cleaning, "sweep_leftovers", list)
    monkeypatch.setattr(cleaning, "remove_abandoned", lambda cache: [])
    assert fencepost("clean") == (0, "nothing was left\n", "")


@pytest.mark.usefixtures("machine")
def test_an_error_of_docker_is_reported_with_status_4(
    fencepost: Fencepost, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(cache: Path) -> list[str]:
        raise EnvironmentFailure("Docker does not answer")

    monkeypatch.setattr(cleaning, "remove_abandoned", refuse)
    status, output, _ = fencepost("clean")
    assert status == 4
    assert "Docker does not answer" in output
    assert "removed: process 4711 (java)" in output
