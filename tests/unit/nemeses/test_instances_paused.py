"""Instances of a custom pipeline become zombies: they are paused until their group goes on without them."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.network import client_link
from harness.processes.child import Child
from harness.processes.specs import ProgramRules
from harness.protocol.observed_clients import ObservedClients
from harness.runner.nemesis import (
    PlannedFault,
    Target,
)
from harness.testing.fake_network import FakeNetwork
from nemeses.effects.member import ZOMBIE
from nemeses.registry import NEMESES
from tests.support.fake_run import ShellProgram
from tests.support.instances import WritingCluster, inject, journal_names, run_instance

pytestmark = pytest.mark.processes


def cluster_with_group(*looks: Sequence[str] | None, own_id: str | None = None) -> WritingCluster:
    """A cluster that returns these members at each look. `own_id`: the member id in requests of the first instance."""
    members = [None if look is None else tuple(look) for look in looks]
    return WritingCluster(
        groups={"g": members},
        network=FakeNetwork(
            clients={"w0": ObservedClients(members={"g": (own_id,), "another": ("b",)})} if own_id else {}
        ),
    )


def test_an_instance_is_paused_until_its_group_goes_on_without_it(tmp_path: Path) -> None:
    cluster = cluster_with_group(
        None, "ab", "ab", "ab", None, "", "ac", "bc", own_id="a"
    )  # c joins, and only then a is removed
    with run_instance(tmp_path, cluster) as (run, member):
        effect = inject(run, "pause-instance")
        assert effect.acted and effect.unmet_goals == {} and cluster.groups["g"] == [("b", "c")]
        assert effect.proof[-1] == (
            "its group g went on without it (a), with 2 members; then s-1.0 came back, sent 300 bytes of requests, and "
            "still runs after 0.06 s"
        )
        assert member.child.running and journal_names(run) == ["s-1.0", "s-1.1"]


def test_an_instance_that_sends_nothing_after_its_pause_was_no_zombie(tmp_path: Path) -> None:
    cluster = cluster_with_group("ab", "ab", "ab", "bc", own_id="a")
    cluster.network.idle = [client_link("w0", broker) for broker in (1, 2, 3)]
    with run_instance(tmp_path, cluster) as (run, member):
        effect = inject(run, "pause-instance")
        assert not effect.acted and member.child.running
        assert effect.unmet_goals == {
            ZOMBIE: "its group g went on without it (a), with 2 members; but then s-1.0 did nothing: waited 0.06 s for "
            "it to end or to send a request; last seen: it runs, and has sent no byte"
        }


@pytest.mark.parametrize(
    ("looks", "own_id", "activity"),
    [
        (["bc", "bc", "bc", "bcd"], "d", "rejoined its group g (d)"),
        (["bc", "bc", "bcd"], "a", "d joined its group g (it is not known whether this was the instance)"),
        (
            ["bc", None, "bcd"],
            "a",
            None,
        ),  # the group was not stable when the instance was resumed: d may have been in it
        (["bc"], "a", None),
    ],
)
def test_without_byte_counts_an_instance_that_rejoins_its_group_was_a_zombie(
    looks: list[str | None],
    own_id: str,
    activity: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = cluster_with_group("ab", "ab", "ab", *looks, own_id="a")
    cluster.network.measured = False
    resume_child = Child.resume

    def resume(child: Child) -> str:
        cluster.network.clients["w0"] = ObservedClients(members={"g": (own_id,)})
        return resume_child(child)

    monkeypatch.setattr(Child, "resume", resume)
    with run_instance(tmp_path, cluster) as (run, _):
        effect = inject(run, "pause-instance")
    if activity is None:
        assert not effect.acted
        assert (
            "waited 0.06 s for it to end or to rejoin g; last seen: it runs, and the members of g are: b, c"
            in (effect.unmet_goals[ZOMBIE])
        )
    else:
        assert effect.acted and effect.proof[-1].endswith(
            f"then s-1.0 came back, {activity}, and still runs after 0.06 s"
        )


def test_a_replacement_that_ends_by_itself_is_no_failure_of_the_fault(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    body = (
        f"if [ -e {lock} ]; then echo the folder is locked; exit 1; fi; touch {lock}; echo up; exec sleep 600"
    )
    with run_instance(
        tmp_path,
        cluster_with_group("ab", "ab", "ab", "bc", own_id="a"),
        ShellProgram(body, ProgramRules("up")),
    ) as (
        run,
        member,
    ):
        planned = PlannedFault("pause-instance", Target("worker", "s/s-1"), 0.0, 0.05, {})
        with NEMESES["pause-instance"].inject(run.context, planned) as effect:
            pass
        assert effect.acted and "went on without it (a)" in effect.proof[-1]
        assert "s-1.1 ended while it started: the folder is locked" in effect.proof[-2]
        assert member.child.running


def test_another_member_that_leaves_is_no_proof(tmp_path: Path) -> None:
    with run_instance(tmp_path, cluster_with_group("ab", "ab", "ab", "ac", own_id="a"), time_scale=0.001) as (
        run,
        member,
    ):
        effect = inject(run, "pause-instance")
        assert not effect.acted and "did not go on without it" in effect.unmet_goals[ZOMBIE]
        assert member.child.running


@pytest.mark.parametrize(
    "cluster",
    [
        cluster_with_group("ab", "ab", "bc"),  # it sent no request as a member
        cluster_with_group(
            "ab", "ab", "bd", "be", own_id="a"
        ),  # it had another member id when it was stopped
    ],
)
def test_the_evidence_says_so_if_the_member_id_is_not_known(cluster: WritingCluster, tmp_path: Path) -> None:
    with run_instance(tmp_path, cluster) as (run, _):
        effect = inject(run, "pause-instance")
        assert effect.acted and "another instance may have left instead" in effect.proof[-1]


def test_the_earlier_members_count_if_the_group_is_not_stable_at_the_pause(tmp_path: Path) -> None:
    with run_instance(tmp_path, cluster_with_group("ab", "ab", None, None, "bc", own_id="a")) as (run, _):
        effect = inject(run, "pause-instance")
        assert effect.acted and "without it (a), with 2 members" in effect.proof[-1]


def test_the_evidence_says_so_if_no_protocol_proxy_is_on_the_links(tmp_path: Path) -> None:
    cluster = cluster_with_group("ab", "ab", "bc", own_id="a")
    cluster.network.decoded = False
    with run_instance(tmp_path, cluster) as (run, _):
        effect = inject(run, "pause-instance")
        assert effect.acted and (
            "which of them was s-1.0 is not known, because no protocol proxy is on its links, so another instance"
            in effect.proof[-1]
        )


def test_a_zombie_that_ends_is_reported_with_its_last_output(tmp_path: Path) -> None:
    ends_when_resumed = ShellProgram(
        "trap 'echo fenced; exit 1' CONT; echo up; while :; do sleep 0.02; done", ProgramRules("up")
    )
    with run_instance(
        tmp_path, cluster_with_group("a", "a", "a", "b", own_id="a"), ends_when_resumed, time_scale=0.1
    ) as (run, _):
        effect = inject(run, "pause-instance")
        assert effect.acted and effect.proof[-1].endswith("then s-1.0 came back and ended: fenced")


def test_an_instance_whose_group_does_not_go_on_was_no_zombie(tmp_path: Path) -> None:
    with run_instance(tmp_path, cluster_with_group("ab"), time_scale=0.001) as (run, member):
        effect = inject(run, "pause-instance")
        assert not effect.acted
        assert effect.unmet_goals == {ZOMBIE: "s-1.0 was paused, but its group did not go on without it"}
        assert member.child.running


def test_an_instance_is_not_paused_if_its_group_is_never_stable(tmp_path: Path) -> None:
    with run_instance(tmp_path, cluster_with_group(None), time_scale=0.001) as (run, member):
        effect = inject(run, "pause-instance")
        assert not effect.acted and "the group g to be stable" in effect.unmet_goals[ZOMBIE]
        assert effect.injected_ns is None and member.child.running and journal_names(run) == ["s-1.0"]
