"""`fencepost clean`: what it says, what it deletes, and what does not go together."""

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from fencepost import cleaning
from fencepost.cli import run_command_line
from harness.common.errors import EnvironmentFailure
from tests.support.guest_cluster import GuestCluster

TAG, USED = "fencepost-3fa91c", "fencepost-0b1c2d"
THERE = ("clean", "--cluster", "external", "--set", "bootstrap=a:1")
MINUTE_MS = 60_000
Fencepost = Callable[..., tuple[int, str, str]]


def ago_ms(minutes: float) -> int:
    return int(time.time() * 1000 - minutes * MINUTE_MS)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> GuestCluster:
    """With what a killed run has left, and a run that goes on."""
    there = GuestCluster(
        {f"{TAG}-in": ago_ms(192), f"{TAG}-out": -1, f"{USED}-in": ago_ms(0)},
        {f"{TAG}-shop": 0, f"{USED}-shop": 3},
    )
    there.install(monkeypatch)
    monkeypatch.setattr(cleaning, "reach_brokers", lambda servers: there.brokers)
    return there


@pytest.fixture
def fencepost(capfd: pytest.CaptureFixture[str]) -> Fencepost:
    def call(*arguments: str) -> tuple[int, str, str]:
        status = run_command_line(arguments)
        told = capfd.readouterr()
        return status, told.out, told.err

    return call


def test_what_is_there_is_listed_and_nothing_is_deleted(cluster: GuestCluster, fencepost: Fencepost) -> None:
    status, told, _ = fencepost(*THERE)
    assert status == 0
    assert told.splitlines() == [
        f"{USED}  1 topic, 1 group, written 0 s ago; still in use: the group {USED}-shop has 3 members",
        f"{TAG}  2 topics, 1 group without members, written 3 h 12 min ago; idle",
        "to delete the idle tags: fencepost clean --cluster external --set bootstrap=a:1 --delete",
    ]
    assert len(cluster.written) == 3


def test_the_command_that_deletes_asks_for_the_same_and_holds_no_secret(
    cluster: GuestCluster, fencepost: Fencepost, tmp_path: Path
) -> None:
    config = tmp_path / "client.properties"
    config.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config="
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="4711";\n'
    )
    _, told, _ = fencepost(*THERE, "--set", f"client-config={config}", "--idle", "2h", TAG)
    assert told.endswith(f"--set client-config={config} --delete --idle 2h {TAG}\n")
    assert "4711" not in told
    assert USED not in told


def test_delete_deletes_what_is_idle_and_says_why_the_rest_is_left(
    cluster: GuestCluster, fencepost: Fencepost
) -> None:
    cluster.members[f"{USED}-shop"] = 0
    status, told, _ = fencepost(*THERE, "--delete")
    assert status == 0
    assert told.splitlines() == [
        f"{USED}  1 topic, 1 group without members, written 0 s ago; less than --idle 10m",
        f"{TAG}  2 topics, 1 group without members, written 3 h 12 min ago; deleted",
    ]
    assert cluster.written.keys() == {f"{USED}-in"}
    assert cluster.members.keys() == {f"{USED}-shop"}
    assert fencepost(*THERE, "--delete", TAG)[0] == 2
    cluster.written.clear()
    cluster.members.clear()
    assert fencepost(*THERE, "--delete") == (0, "nothing was left\n", "")


def test_json_is_a_list_of_objects_and_words_go_to_standard_error(
    cluster: GuestCluster, fencepost: Fencepost
) -> None:
    _, listed, words = fencepost(*THERE, "--json")
    assert "to delete the idle tags" in words
    used, idle = json.loads(listed)
    assert (used["idle"], used["groups"]) == (False, [{"name": f"{USED}-shop", "members": 3}])
    assert (idle["tag"], idle["idle"], idle["because"]) == (TAG, True, None)
    assert idle["last_record_ms"] == cluster.written[f"{TAG}-in"]
    _, deleted, _ = fencepost(*THERE, "--json", "--delete", TAG)
    (told,) = json.loads(deleted)
    assert told["deleted"] == {"topics": [f"{TAG}-in", f"{TAG}-out"], "groups": [f"{TAG}-shop"]}
    assert told["failures"] == []


def test_what_acls_keep_is_told_and_4(cluster: GuestCluster, fencepost: Fencepost) -> None:
    cluster.forbidden = {f"{TAG}-in"}
    status, told, _ = fencepost(*THERE, "--delete")
    assert status == 4
    assert "deleted 1 of 2 topics and 1 of 1 group\n" in told
    assert f"  {TAG}-in was not removed: the cluster's ACLs do not allow" in told
    assert cluster.written.keys() == {f"{TAG}-in", f"{USED}-in"}


def test_a_run_that_is_only_starting_keeps_its_topics_unless_it_is_named(
    cluster: GuestCluster, fencepost: Fencepost
) -> None:
    """It has topics, and neither records nor members."""
    cluster.written = {f"{TAG}-in": -1}
    cluster.members = {}
    status, told, _ = fencepost(*THERE, "--delete", "--idle", "1s")
    assert (status, told) == (
        0,
        (
            f"{TAG}  1 topic, 0 groups, no records; left alone: a run with this tag may be starting; "
            "if none is, name the tag to delete it\n"
        ),
    )
    _, told, _ = fencepost(*THERE, "--delete", TAG)
    assert told == f"{TAG}  1 topic, 0 groups, no records; deleted\n"
    assert not cluster.written


def test_each_tag_is_looked_at_again_before_it_is_deleted(
    cluster: GuestCluster, fencepost: Fencepost, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.written = {f"{tag}-in": ago_ms(192) for tag in ("fencepost-000001", "fencepost-000002", TAG)}
    cluster.members = {}
    delete = cluster.delete_topics

    def meanwhile(at: int, topics: Sequence[str], timeout_s: float) -> None:
        cluster.members = {f"{TAG}-shop": 3}  # somebody begins to use one, and another one's run removes it
        cluster.written.pop("fencepost-000002-in", None)
        delete(at, topics, timeout_s)

    monkeypatch.setattr("harness.cluster.topics.delete_topics", meanwhile)
    status, told, _ = fencepost(*THERE, "--delete", "--json")
    assert status == 0
    assert [(one["tag"], "deleted" in one) for one in json.loads(told)] == [
        ("fencepost-000001", True),
        (TAG, False),
    ]
    assert cluster.written.keys() == {f"{TAG}-in"}


def test_what_nobody_can_tell_of_is_listed_and_fails_only_where_it_was_to_be_deleted(
    cluster: GuestCluster, fencepost: Fencepost
) -> None:
    cluster.hidden = True
    status, told, _ = fencepost(*THERE)
    assert status == 0
    assert told.count("left alone: the cluster's ACLs do not allow") == 2
    assert "to delete" not in told
    assert fencepost(*THERE, "--delete")[0] == 4
    assert len(cluster.written) == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("clean", TAG), f"the tag {TAG} needs an external cluster"),
        (("clean", "--delete"), "--delete needs an external cluster"),
        (("clean", "--idle", "1h"), "--idle needs an external cluster"),
        (("clean", "--cluster", "local", "--delete"), "--delete needs an external cluster"),
        (("clean", "--cluster", "docker", TAG), "needs an external cluster"),
        (("clean", "--set", "bootstrap=a:1"), "--set bootstrap needs --cluster external"),
        (("clean", "--set", "prefix=x"), "--set prefix needs --cluster external"),
        (("clean", "--cluster", "external"), "--cluster external needs --set bootstrap"),
        ((*THERE, "--set", "rate=3"), "clean has no option rate"),
        ((*THERE, "--idle", "soon"), "idle must be a duration, such as"),
        ((*THERE, "--idle", "0"), "idle must be a duration, such as"),
        ((*THERE, "fencepost-mine"), '"fencepost-mine" is not a tag'),
        ((*THERE, f"{TAG}-in"), "is not a tag"),
        ((*THERE, "--set", "prefix=x", TAG), "a tag is x- and six hex digits"),
        ((*THERE, "fencepost-aaaaaa"), "nothing on the cluster has the tag fencepost-aaaaaa"),
    ],
)
def test_what_does_not_go_together_is_one_sentence_and_2(
    cluster: GuestCluster, fencepost: Fencepost, arguments: Sequence[str], words: str
) -> None:
    before = dict(cluster.written)
    status, told, error = fencepost(*arguments)
    assert (status, told) == (2, "")
    assert words in error
    assert error.count("\n") == 1
    assert cluster.written == before


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaning, "sweep_leftovers", lambda: ["process 4711 (java)", "folder /tmp/x"])
    monkeypatch.setattr(cleaning, "remove_abandoned", lambda cache: ["container kafka-1"])


@pytest.mark.usefixtures("machine")
def test_each_thing_that_went_has_its_line(fencepost: Fencepost, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["removed: process 4711 (java)", "removed: folder /tmp/x", "removed: container kafka-1"]
    assert fencepost("clean") == (0, "".join(f"{line}\n" for line in lines), "")
    _, told, _ = fencepost("clean", "--json")
    assert json.loads(told)[0] == {"removed": "process 4711 (java)"}
    monkeypatch.setattr(cleaning, "sweep_leftovers", list)
    monkeypatch.setattr(cleaning, "remove_abandoned", lambda cache: [])
    assert fencepost("clean") == (0, "nothing was left\n", "")


@pytest.mark.usefixtures("machine")
def test_a_docker_that_refuses_is_told_and_4(fencepost: Fencepost, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(cache: Path) -> list[str]:
        raise EnvironmentFailure("Docker does not answer")

    monkeypatch.setattr(cleaning, "remove_abandoned", refuse)
    status, told, _ = fencepost("clean")
    assert status == 4
    assert "Docker does not answer" in told
    assert "removed: process 4711 (java)" in told
