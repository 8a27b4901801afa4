"""Instances of a user's program are struck: any of them, or where their coordinator says that their transaction is."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from harness.cluster import TransactionView
from harness.cluster.fake import FakeCluster
from harness.errors import FaultFailed, WaitTimeout
from harness.network import LinkEffect
from harness.network.links import peer_link
from harness.pipeline import CONSUMER_OFFSETS
from harness.programs import Manners
from harness.runner.faults import (
    Effect,
    FaultTargets,
    Injection,
    NothingToStrike,
    OfAnotherPipeline,
    Resource,
    Target,
)
from harness.runner.member import Member
from harness.witness.request_log import Heard
from nemeses import instances, membership, overhearing, pause_instance, stopped
from nemeses.in_transaction import GOAL as STATE
from nemeses.pause_worker import GOAL as ZOMBIE
from nemeses.registry import NEMESES
from tests.support.fake_run import USERS, FakeRun, Plain, fake_run

FAULTS = ("kill-instance", "pause-instance")
OURS = FaultTargets(
    brokers=(1, 2, 3),
    places=(("in", 0), ("out", 0)),
    workers={"ours": ("ours-1",)},
    steps={"ours": ("after-send",)},
    held_at={},
    groups={"ours": "g"},
    transactional_ids={"ours": ("ours-1",)},
    slots=("w0",),
)
MIXED = replace(
    OURS,
    workers={"ours": ("ours-1",), "bill": ("bill-1", "bill-2"), "count": ("count-1",), "log": ("log-1",)},
    groups={"ours": "g", "bill": "g1", "count": "g2"},
    transactional_ids={"ours": ("ours-1",), "bill": ("b-1", "b-2"), "count": (), "log": ()},
)
STAYS = Plain("echo up; exec sleep 600", Manners("up"))
ONCE = (("out", 0),)
DONE, OPEN = TransactionView("CompleteCommit", 7, 0, ()), TransactionView("Ongoing", 7, 0, ONCE)
DECIDED, ABORTS = TransactionView("PrepareCommit", 7, 0, ONCE), TransactionView("PrepareAbort", 7, 0, ONCE)
WITH_OFFSETS = TransactionView("Ongoing", 7, 0, (*ONCE, (CONSUMER_OFFSETS, 3)))


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopped, "CATCH_TIMEOUT_S", 0.5)
    monkeypatch.setattr(stopped, "PREPARE_TIMEOUT_S", 0.5)
    monkeypatch.setattr(overhearing, "IDENTIFY_TIMEOUT_S", 0.5)
    for name in ("STABLE_TIMEOUT_S", "TAKE_OVER_TIMEOUT_S"):
        monkeypatch.setattr(membership, name, 0.5)
    monkeypatch.setattr(pause_instance, "COME_BACK_TIMEOUT_S", 0.5)
    monkeypatch.setattr(instances, "AT_WORK_TIMEOUT_S", 0.5)
    monkeypatch.setattr(instances, "SOON_S", 0.3)


def drawn(fault: str, targets: FaultTargets, at: str | None = None) -> set[str]:
    """All that it would draw."""
    nemesis = replace(NEMESES[fault], at=at)
    return {nemesis.drawn(Random(seed), targets).target.name for seed in range(60)}


@pytest.mark.parametrize("fault", FAULTS)
def test_workers_that_tell_of_their_steps_are_none_of_theirs(fault: str) -> None:
    with pytest.raises(OfAnotherPipeline, match="a pipeline of your own"):
        drawn(fault, OURS)
    grouped = {"bill/bill-1", "bill/bill-2", "count/count-1"}
    assert drawn(fault, MIXED) == grouped | ({"log/log-1"} if fault == "kill-instance" else set())


def test_who_has_no_group_is_not_paused() -> None:
    with pytest.raises(OfAnotherPipeline, match="with a group"):
        drawn("pause-instance", replace(MIXED, groups={}))


@pytest.mark.parametrize("fault", FAULTS)
def test_in_a_state_of_a_transaction_those_are_struck_that_have_an_id(fault: str) -> None:
    assert drawn(fault, MIXED, "ongoing") == {"bill/bill-1", "bill/bill-2"}
    two = replace(MIXED, transactional_ids={**MIXED.transactional_ids, "count": ("c-1",)})
    assert drawn(fault, two, "count:offsets-added") == {"count/count-1"}
    with pytest.raises(NothingToStrike, match="a stage log with a transactional id"):
        drawn(fault, MIXED, "log:ongoing")
    with pytest.raises(OfAnotherPipeline):
        drawn(fault, OURS, "ongoing")


@pytest.mark.parametrize("fault", FAULTS)
def test_one_that_is_not_aimed_mostly_waits_for_an_open_transaction_where_there_are_some(fault: str) -> None:
    found = replace(MIXED, unnamed=("count",))
    drawn = [NEMESES[fault].drawn(Random(seed), found) for seed in range(60)]
    told = {(one.target.name.partition("/")[0], one.parameters.get("prefers")) for one in drawn}
    assert {("bill", "ongoing"), ("bill", None), ("count", "ongoing"), ("count", None)} <= told
    assert ("log", "ongoing") not in told
    aimed = replace(NEMESES[fault], at="offsets-added").drawn(Random(1), MIXED)
    assert aimed.parameters == {"state": "offsets-added"}


@contextmanager
def running(folder: Path, cluster: FakeCluster, program: Plain = STAYS) -> Iterator[tuple[FakeRun, Member]]:
    with fake_run(folder, program, cluster, pipeline=USERS) as run:
        member = run.processes.start_worker("s", "s-1")
        run.processes.await_ready([member])
        yield run, member


def struck(run: FakeRun, fault: str, state: str | None = None, *, prefers: bool = False) -> Effect:
    parameters = {"prefers": "ongoing"} if prefers else {} if state is None else {"state": state}
    injection = Injection(fault, Target("worker", "s/s-1"), 0.0, 0.05, parameters)
    with NEMESES[fault].strike(run.context, injection) as effect:
        pass
    run.processes.replace_dead()
    assert run.processes.unexpected_ends == []  # whoever ended was expected to
    return effect


def journals(run: FakeRun) -> list[str]:
    return [member.journal for member in run.processes.members]


def test_one_is_killed_with_all_that_it_has_started_and_started_again(tmp_path: Path) -> None:
    launcher = Plain("echo up; sleep 600; true", Manners("up"))
    with running(tmp_path, FakeCluster(), launcher) as (run, member):
        effect = struck(run, "kill-instance")
        assert effect.acted and effect.lacking == {} and effect.struck_ns is not None
        assert member.child.ending().endswith("ended by SIGKILL") and member.child.ending() in effect.proof
        assert journals(run) == ["s-1.0", "s-1.1"] and run.processes.members[1].alive
        assert effect.target == "instance s-1.0"


def test_one_is_killed_once_it_is_ready_and_its_stage_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instances, "AT_WORK_TIMEOUT_S", 10.0)  # its start is part of it
    highs = [5, 5, 6]
    late = Plain("sleep 0.3; echo up; exec sleep 600", Manners("up"))
    with fake_run(tmp_path, late, pipeline=USERS) as run:
        member = run.processes.start_worker("s", "s-1")

        def last_stable(topics: Sequence[str]) -> dict[tuple[str, int], tuple[int, int, int]]:
            assert member.heard.ready and member.alive
            return {("out", 0): (0, 0, highs.pop(0))}

        monkeypatch.setattr(run.cluster, "last_stable", last_stable)
        assert struck(run, "kill-instance").acted and highs == []


def test_who_took_the_place_of_one_that_ended_before_it_was_struck_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instances, "AT_WORK_TIMEOUT_S", 10.0)
    highs = [5, 5, 6]
    with running(tmp_path, FakeCluster(), STAYS) as (run, member):

        def last_stable(topics: Sequence[str]) -> dict[tuple[str, int], tuple[int, int, int]]:
            if len(highs) == 2:
                member.expected_to_end = True
                member.child.kill()
                run.processes.replace(member)
            return {("out", 0): (0, 0, highs.pop(0))}

        monkeypatch.setattr(run.cluster, "last_stable", last_stable)
        effect = struck(run, "kill-instance")
        assert effect.acted and effect.target == "instance s-1.1" and highs == []
        assert journals(run) == ["s-1.0", "s-1.1", "s-1.2"]


def test_a_stage_that_may_be_silent_for_long_is_waited_for_as_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instances, "AT_WORK_TIMEOUT_S", 0.01)
    (users,) = USERS.stages
    alone = replace(USERS, stages=(replace(users, group=None, idle_s=10.0),))
    highs = [5] * 5 + [6]
    with fake_run(tmp_path, STAYS, pipeline=alone) as run:
        run.processes.await_ready([run.processes.start_worker("s", "s-1")])
        monkeypatch.setattr(run.cluster, "last_stable", lambda _: {("out", 0): (0, 0, highs.pop(0))})
        assert struck(run, "kill-instance").acted and highs == []


@pytest.mark.parametrize(
    ("state", "looks"),
    [
        ("ongoing", [DONE, OPEN, DONE, OPEN, OPEN]),  # the second time it had ended before it was stopped
        ("offsets-added", [OPEN, WITH_OFFSETS, OPEN, WITH_OFFSETS, WITH_OFFSETS]),
    ],
)
def test_one_is_killed_in_the_state_in_which_it_was_stopped(
    state: str, looks: list[TransactionView], tmp_path: Path
) -> None:
    last = looks[-1]
    with running(tmp_path, FakeCluster(transactions={"s-1": looks})) as (run, member):
        effect = struck(run, "kill-instance", state)
        assert effect.acted and looks == [last]
        topics = ", ".join(sorted(topic for topic, _ in last.places))
        assert effect.proof[0] == f"s-1.0 was stopped while s-1 was Ongoing with {topics}"
        assert effect.details == {"worker": "s-1.0", "state": state, "transactional_id": "s-1"}
        assert not member.alive


@pytest.mark.parametrize("fault", FAULTS)
def test_one_that_waits_for_an_open_transaction_is_struck_in_it(fault: str, tmp_path: Path) -> None:
    cluster = FakeCluster(transactions={"s-1": [DONE, OPEN, OPEN]}, groups={"g": [("a",), ("a",), ("b",)]})
    with running(tmp_path, cluster) as (run, _):
        effect = struck(run, fault, prefers=True)
        assert effect.acted and effect.struck_ns is not None
        assert "s-1.0 was stopped while s-1 was Ongoing with out" in effect.proof
        assert effect.details == {"worker": "s-1.0", "transactional_id": "s-1"}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("looks", [[DONE], []])
def test_one_that_waits_in_vain_for_an_open_transaction_is_struck_as_it_is(
    fault: str, looks: list[TransactionView], tmp_path: Path
) -> None:
    cluster = FakeCluster(transactions={"s-1": looks}, groups={"g": [("a",), ("a",), ("b",)]})
    with running(tmp_path, cluster) as (run, _):
        effect = struck(run, fault, prefers=True)
        assert effect.acted and effect.lacking == {}
        assert effect.details == {"worker": "s-1.0"}


def deciding(*looks: TransactionView, leader: int = 2) -> FakeCluster:
    """Broker 1 coordinates the instance's id, and `leader` leads what it writes."""
    cluster = FakeCluster(transactions={"s-1": list(looks)}, groups={"g": [("a",), ("a",), ("b",)]})
    cluster._leader["out/0"] = leader
    return cluster


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    "before",
    [
        (),
        (OPEN, OPEN, ABORTS),  # the first one aborts
        (OPEN, OPEN, DECIDED, DECIDED, DONE, DONE),  # it was complete before the instance stood still
    ],
)
def test_one_is_struck_while_its_markers_are_held_back(
    fault: str, before: tuple[TransactionView, ...], tmp_path: Path
) -> None:
    cluster = deciding(*before, OPEN, OPEN, OPEN, DECIDED, DECIDED, DECIDED)
    with running(tmp_path, cluster) as (run, member):
        effect = struck(run, fault, "prepare-commit")
        assert effect.acted and effect.lacking == {} and effect.details["state"] == "prepare-commit"
        assert effect.proof[0] == (
            "s-1.0 was stopped while s-1 was PrepareCommit with out: broker 1 said that s-1 was in PrepareCommit, "
            "with no marker yet in out/0"
        )
        assert set(cluster.network.imposed) == {(peer_link(1, 2, "int"), LinkEffect.SILENT)}
        assert cluster.network.on == [] and member.alive == (fault == "pause-instance")


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    ("cluster", "why"),
    [
        (lambda: deciding(OPEN), "to be in PrepareCommit"),
        (lambda: deciding(OPEN, OPEN, DECIDED, DONE), "to be in PrepareCommit"),
        (lambda: deciding(OPEN, OPEN, TransactionView("PrepareCommit", 7, 0, ())), "to be in PrepareCommit"),
        (lambda: deciding(OPEN, leader=1), "whose markers can be held back"),
    ],
)
def test_one_that_is_not_seen_in_prepare_commit_goes_on(
    fault: str, cluster: Callable[[], FakeCluster], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopped, "TRIES", 1)
    made = cluster()
    with running(tmp_path, made) as (run, member):
        effect = struck(run, fault, "prepare-commit")
        assert not effect.acted and why in effect.lacking[STATE] and effect.struck_ns is None
        assert member.child.running and made.network.on == [] and journals(run) == ["s-1.0"]


def test_one_goes_on_where_its_markers_cannot_be_held_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = deciding(OPEN)

    def refuse(*_: object) -> None:
        raise FaultFailed("the links could not be cut")

    monkeypatch.setattr(cluster.network, "impose", refuse)
    with running(tmp_path, cluster) as (run, member):
        with pytest.raises(FaultFailed):
            struck(run, "kill-instance", "prepare-commit")
        assert member.child.running


def test_what_holds_markers_back_takes_longer() -> None:
    for fault in FAULTS:
        rooms = [replace(NEMESES[fault], at=at).room_s for at in (None, "ongoing", "bill:prepare-commit")]
        assert rooms[0] == rooms[1] == rooms[2] - stopped.PREPARES_S


def test_what_holds_markers_back_leaves_the_brokers_to_nobody_else() -> None:
    for fault in FAULTS:
        at = [
            NEMESES[fault].occupies(Injection(fault, Target("worker", "s/s-1"), 0.0, 1.0, parameters))
            for parameters in ({"state": "ongoing"}, {"state": "prepare-commit"})
        ]
        assert at == [{Resource.WORKERS}, {Resource.WORKERS, Resource.BROKERS}]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    ("state", "looks"),
    [("ongoing", [DONE]), ("ongoing", [OPEN, DONE]), ("offsets-added", [OPEN]), ("ongoing", [])],
)
def test_one_that_does_not_come_to_the_state_goes_on(
    fault: str, state: str, looks: list[TransactionView], tmp_path: Path
) -> None:
    cluster = FakeCluster(transactions={"s-1": looks}, groups={"g": [("a",)]})
    with running(tmp_path, cluster) as (run, member):
        effect = struck(run, fault, state)
        assert not effect.acted and f"in a transaction of s-1 that is {state}" in effect.lacking[STATE]
        assert effect.struck_ns is None and member.child.running and journals(run) == ["s-1.0"]


def test_one_goes_on_where_nobody_says_how_its_transaction_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(tmp_path, FakeCluster()) as (run, member):

        def told(own: str) -> TransactionView:
            if member.child.paused:
                raise WaitTimeout("the controller's view", 15.0, "nothing")
            return OPEN

        monkeypatch.setattr(run.cluster, "transaction", told)
        effect = struck(run, "kill-instance", "ongoing")
        assert not effect.acted and "the controller's view" in effect.lacking[STATE]
        assert member.child.running


def test_one_that_ends_meanwhile_is_told_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(tmp_path, FakeCluster()) as (run, member):
        monkeypatch.setattr(run.cluster, "transaction", lambda own: member.child.kill() and None)
        injection = Injection("kill-instance", Target("worker", "s/s-1"), 0.0, 0.05, {"state": "ongoing"})
        with NEMESES["kill-instance"].strike(run.context, injection) as effect:
            pass
        assert not effect.acted and "it ended: up" in effect.lacking[STATE]


NAMELESS = replace(USERS, stages=(replace(USERS.stages[0], transactional_ids={}),))


def test_one_that_speaks_of_no_transactional_id_is_not_caught(tmp_path: Path) -> None:
    with fake_run(tmp_path, STAYS, pipeline=NAMELESS) as run:
        run.processes.await_ready([run.processes.start_worker("s", "s-1")])
        effect = struck(run, "kill-instance", "ongoing")
        (words,) = effect.lacking.values()
        assert words.startswith("s-1.0 spoke of no transactional id for ")
        assert run.cluster.recording == [True, False]


def test_the_transactional_id_of_one_that_nobody_named_is_the_one_that_it_speaks_by_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {"of-another": "10:00:02,000", "s-1": "10:00:01,000"}
    looks = [before, before, before | {"s-1": "10:00:03,000", "thread-2": "10:00:02,999"}]
    cluster = FakeCluster(transactions={"s-1": [OPEN], "thread-2": [OPEN], "of-another": [OPEN]})
    monkeypatch.setattr(
        cluster, "heard", lambda slot: Heard(transactional_ids=looks.pop(0) if len(looks) > 1 else looks[0])
    )
    with fake_run(tmp_path, STAYS, cluster, pipeline=NAMELESS) as run:
        run.processes.await_ready([run.processes.start_worker("s", "s-1")])
        effect = struck(run, "kill-instance", "ongoing")
        assert effect.acted and effect.details["transactional_id"] == "s-1"


def test_a_stage_whose_ids_nobody_named_is_aimed_at_where_they_can_be_found_out() -> None:
    for fault in FAULTS:
        with pytest.raises(NothingToStrike, match="with a transactional id"):
            drawn(fault, replace(MIXED, transactional_ids={}), "ongoing")
        unnamed = replace(MIXED, transactional_ids={}, unnamed=("count",))
        assert drawn(fault, unnamed, "ongoing") == {"count/count-1"}
        assert drawn(fault, unnamed, "count:ongoing") == {"count/count-1"}


def group_of(*looks: Sequence[str] | None, own: str | None = None) -> FakeCluster:
    """What is said of the group at each look; `own`: the id by which the first instance speaks."""
    told = [None if look is None else tuple(look) for look in looks]
    return FakeCluster(
        groups={"g": told}, asked={"w0": Heard(frozenset({("g", own), ("another", "b")}))} if own else {}
    )


def test_one_is_paused_until_its_group_has_gone_on_and_then_comes_back(tmp_path: Path) -> None:
    cluster = group_of(
        None, "ab", "ab", "ab", None, "", "ac", "bc", own="a"
    )  # c joins, and only then a is thrown out
    with running(tmp_path, cluster) as (run, member):
        effect = struck(run, "pause-instance")
        assert effect.acted and effect.lacking == {} and cluster.groups["g"] == [("b", "c")]
        assert effect.proof[-1] == (
            "its group g went on without it (a), with 2 members; then s-1.0 came back, and still runs after 0.5 s"
        )
        assert member.child.running and journals(run) == ["s-1.0", "s-1.1"]
        assert cluster.recording == [True, False]


def test_a_replacement_that_ends_by_itself_is_no_failure_of_the_fault(tmp_path: Path) -> None:
    first = tmp_path / "was-there"
    body = f"if [ -e {first} ]; then echo the folder is locked; exit 1; fi; touch {first}; echo up; exec sleep 600"
    with running(tmp_path, group_of("ab", "ab", "ab", "bc", own="a"), Plain(body, Manners("up"))) as (
        run,
        member,
    ):
        injection = Injection("pause-instance", Target("worker", "s/s-1"), 0.0, 0.05, {})
        with NEMESES["pause-instance"].strike(run.context, injection) as effect:
            pass
        assert effect.acted and "went on without it (a)" in effect.proof[-1]
        assert "s-1.1 ended at its start: the folder is locked" in effect.proof[-2]
        assert member.child.running


def test_that_another_member_left_is_no_proof(tmp_path: Path) -> None:
    with running(tmp_path, group_of("ab", "ab", "ab", "ac", own="a")) as (run, member):
        effect = struck(run, "pause-instance")
        assert not effect.acted and "did not go on without it" in effect.lacking[ZOMBIE]
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
        "trap 'echo fenced; exit 1' CONT; echo up; while :; do sleep 600 & wait; done", Manners("up")
    )
    with running(tmp_path, FakeCluster(groups={"g": [("a",), ("a",), ("b",)]}), notices) as (run, _):
        effect = struck(run, "pause-instance")
        assert effect.acted and effect.proof[-1].endswith("then s-1.0 came back and ended: fenced")


def test_one_whose_group_does_not_go_on_without_it_was_no_zombie(tmp_path: Path) -> None:
    with running(tmp_path, FakeCluster(groups={"g": [("a", "b")]})) as (run, member):
        effect = struck(run, "pause-instance")
        assert not effect.acted
        assert effect.lacking == {ZOMBIE: "s-1.0 was paused, and its group did not go on without it"}
        assert member.child.running


def test_one_whose_group_never_is_stable_is_not_paused(tmp_path: Path) -> None:
    with running(tmp_path, FakeCluster(groups={"g": [None]})) as (run, member):
        effect = struck(run, "pause-instance")
        assert not effect.acted and "the group g to be stable" in effect.lacking[ZOMBIE]
        assert effect.struck_ns is None and member.child.running and journals(run) == ["s-1.0"]
