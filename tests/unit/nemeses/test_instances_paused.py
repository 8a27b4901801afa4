"""Instances of a user's program become zombies: their group goes on without them."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.common.errors import WaitTimeout
from harness.network.links import client_link
from harness.processes.child import Child
from harness.processes.program import ProgramRules
from harness.runner.nemesis import (
    PlannedFault,
    Target,
)
from harness.testing.fake_cluster import FakeCluster
from harness.witness.request_log import ObservedClientIds
from nemeses import pause_instance
from nemeses.pause_worker import GOAL as ZOMBIE
from nemeses.registry import NEMESES
from tests.support.fake_run import Plain
from tests.support.instances import journals, running, struck

pytestmark = pytest.mark.usefixtures("soon")


def group_of(*looks: Sequence[str] | None, own: str | None = None) -> FakeCluster:
    """What is said of the group at each look; `own`: the id by which the first instance speaks."""
    told = [None if look is None else tuple(look) for look in looks]
    return FakeCluster(
        groups={"g": told},
        observed_ids={"w0": ObservedClientIds(frozenset({("g", own), ("another", "b")}))} if own else {},
    )


def test_one_is_paused_until_its_group_has_gone_on_and_then_comes_back(tmp_path: Path) -> None:
    cluster = group_of(
        None, "ab", "ab", "ab", None, "", "ac", "bc", own="a"
    )  # c joins, and only then a is thrown out
    with running(tmp_path, cluster) as (run, member):
        effect = struck(run, "pause-instance")
        assert effect.acted and effect.unmet_goals == {} and cluster.groups["g"] == [("b", "c")]
        assert effect.proof[-1] == (
            "its group g went on without it (a), with 2 members; then s-1.0 came back, sent 300 bytes of requests, and "
            "still runs after 0.5 s"
        )
        assert member.child.running and journals(run) == ["s-1.0", "s-1.1"]
        assert cluster.recording == [True, False]


def test_one_that_sends_nothing_after_it_went_on_was_no_zombie(tmp_path: Path) -> None:
    cluster = group_of("ab", "ab", "ab", "bc", own="a")
    cluster.network.idle = [client_link("w0", broker) for broker in (1, 2, 3)]
    with running(tmp_path, cluster) as (run, member):
        effect = struck(run, "pause-instance")
        assert not effect.acted and member.child.running
        assert effect.unmet_goals == {
            ZOMBIE: "its group g went on without it (a), with 2 members; but then s-1.0 did nothing: waited 0.5 s for "
            "it to end or to send a request; last seen: it runs, and has sent no byte"
        }


@pytest.mark.parametrize(
    ("looks", "own", "did"),
    [
        (["bc", "bc", "bc", "bcd"], "d", "rejoined its group g (d)"),
        (["bc", "bc", "bcd"], "a", "d joined its group g (it is not known whether this was the instance)"),
        (["bc", None, "bcd"], "a", None),  # the group was not stable when it went on: d may have been there
        (["bc"], "a", None),
    ],
)
def test_where_bytes_cannot_be_counted_one_that_rejoins_its_group_was_a_zombie(
    looks: list[str | None], own: str, did: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = group_of("ab", "ab", "ab", *looks, own="a")
    cluster.network.measured = False
    paused = Child.resume

    def resume(child: Child) -> str:
        cluster.observed_ids["w0"] = ObservedClientIds(frozenset({("g", own)}))
        return paused(child)

    monkeypatch.setattr(Child, "resume", resume)
    with running(tmp_path, cluster) as (run, _):
        effect = struck(run, "pause-instance")
    if did is None:
        assert not effect.acted
        assert (
            "waited 0.5 s for it to end or to rejoin g; last seen: it runs, and the members of g are: b, c"
            in (effect.unmet_goals[ZOMBIE])
        )
    else:
        assert effect.acted and effect.proof[-1].endswith(
            f"then s-1.0 came back, {did}, and still runs after 0.5 s"
        )


def test_a_replacement_that_ends_by_itself_is_no_failure_of_the_fault(tmp_path: Path) -> None:
    first = tmp_path / "was-there"
    body = f"if [ -e {first} ]; then echo the folder is locked; exit 1; fi; touch {first}; echo up; exec sleep 600"
    with running(tmp_path, group_of("ab", "ab", "ab", "bc", own="a"), Plain(body, ProgramRules("up"))) as (
        run,
        member,
    ):
        injection = PlannedFault("pause-instance", Target("worker", "s/s-1"), 0.0, 0.05, {})
        with NEMESES["pause-instance"].inject(run.context, injection) as effect:
            pass
        assert effect.acted and "went on without it (a)" in effect.proof[-1]
        assert "s-1.1 ended while it started: the folder is locked" in effect.proof[-2]
        assert member.child.running


def test_that_another_member_left_is_no_proof(tmp_path: Path) -> None:
    with running(tmp_path, group_of("ab", "ab", "ab", "ac", own="a")) as (run, member):
        effect = struck(run, "pause-instance")
        assert not effect.acted and "did not go on without it" in effect.unmet_goals[ZOMBIE]
        assert member.child.running


@pytest.mark.parametrize(
    "cluster",
    [
        group_of("ab", "ab", "bc"),  # nobody heard it
        group_of("ab", "ab", "bd", "be", own="a"),  # it was in the group by another id when it was stopped
    ],
)
def test_where_its_member_is_not_known_the_evidence_says_so(cluster: FakeCluster, tmp_path: Path) -> None:
    with running(tmp_path, cluster) as (run, _):
        effect = struck(run, "pause-instance")
        assert effect.acted and "another instance may have left instead" in effect.proof[-1]


def test_of_a_group_that_is_not_stable_when_one_is_stopped_the_members_before_count(tmp_path: Path) -> None:
    with running(tmp_path, group_of("ab", "ab", None, None, "bc", own="a")) as (run, _):
        effect = struck(run, "pause-instance")
        assert effect.acted and "without it (a), with 2 members" in effect.proof[-1]


def test_a_broker_that_records_no_requests_keeps_nobody_from_being_paused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = group_of("ab", "ab", "bc", own="a")

    def refuse(on: bool, whose: str) -> None:
        raise WaitTimeout("a broker to answer", 1.0, "nothing")

    monkeypatch.setattr(cluster, "record_requests", refuse)
    with running(tmp_path, cluster) as (run, _):
        effect = struck(run, "pause-instance")
        assert effect.acted and "is not known, so another instance" in effect.proof[-1]


def test_a_zombie_that_notices_and_ends_is_told_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pause_instance, "COME_BACK_TIMEOUT_S", 20.0)
    notices = Plain(
        "trap 'echo fenced; exit 1' CONT; echo up; while :; do sleep 600 & wait; done", ProgramRules("up")
    )
    with running(tmp_path, FakeCluster(groups={"g": [("a",), ("a",), ("b",)]}), notices) as (run, _):
        effect = struck(run, "pause-instance")
        assert effect.acted and effect.proof[-1].endswith("then s-1.0 came back and ended: fenced")


def test_one_whose_group_does_not_go_on_without_it_was_no_zombie(tmp_path: Path) -> None:
    with running(tmp_path, FakeCluster(groups={"g": [("a", "b")]})) as (run, member):
        effect = struck(run, "pause-instance")
        assert not effect.acted
        assert effect.unmet_goals == {ZOMBIE: "s-1.0 was paused, and its group did not go on without it"}
        assert member.child.running


def test_one_whose_group_never_is_stable_is_not_paused(tmp_path: Path) -> None:
    with running(tmp_path, FakeCluster(groups={"g": [None]})) as (run, member):
        effect = struck(run, "pause-instance")
        assert not effect.acted and "the group g to be stable" in effect.unmet_goals[ZOMBIE]
        assert effect.injected_ns is None and member.child.running and journals(run) == ["s-1.0"]
