"""The shapes of network faults: which links they concern, and that each effect takes each shape."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from fencepost.registry import aim, require_known_fault
from harness.cluster import Ability
from harness.cluster.config import lay_out
from harness.common.errors import FaultFailed, UsageError
from harness.model.fault_names import requested_name
from harness.network import Cut, DropOneWay, client_link, links_between, peer_link
from harness.runner.nemesis import PlannedFault, Resource, Target
from harness.testing.fake_cluster import FakeCluster, fault_context
from harness.testing.fake_network import FakeNetwork
from nemeses.aiming.shapes import SHAPE_ROLES, SHAPES, bridge, ring, separate
from nemeses.registry import NEMESES
from tests.support.drawn_schedule import draw
from tests.support.fake_run import fake_run
from tests.unit.harness.test_schedule import TARGETS

ON_LINKS = (
    "partition",
    "one-way",
    "reset-connections",
    "refuse-connections",
    "half-open",
    "slow-network",
    "limit-bandwidth",
    "slice-packets",
)
FIVE = replace(TARGETS, brokers=(1, 2, 3, 4, 5))
TARGETS_OF_SHAPES = {
    "isolate": {f"isolate:{n}" for n in range(1, 6)},
    "isolate:2": {"isolate:2"},
    "pair:1-4": {"pair:1-4"},
    "minority:2-5": {"minority:2-5"},
    "ring:5-1-3-2-4": {"ring:5-1-3-2-4"},
    "bridge:5-1-3-2-4": {"bridge:5-1-3-2-4"},
    "controllers": {"controllers:4", "controllers:5"},
    "controllers:4-5": {"controllers:4-5"},
    "client": {f"client:w{n}-{broker}" for n in range(3) for broker in range(1, 6)},
    "client:w1-3": {"client:w1-3"},
}


def real_links(size: int) -> list[str]:
    """Return the links between the brokers of a cluster that a run starts."""
    ports = iter(range(10_000))
    return list(lay_out(size, ["w0"], lambda: next(ports)).links)


def separated_pairs(target: str, size: int) -> set[frozenset[int]]:
    """Return the pairs of brokers between which a shape has links."""
    context = fault_context(FakeCluster(size=size, network=FakeNetwork(links=real_links(size))))
    links = separate(context, Target.parse(target)).links
    return {frozenset(map(int, link.split(":")[1].split("->"))) for link in links}


@pytest.mark.parametrize("size", range(4, 8))
def test_in_a_ring_each_broker_sees_a_majority_and_no_two_see_the_same(size: int) -> None:
    order = Random(size).sample(range(1, size + 1), size)
    apart = {frozenset(pair) for pair in ring(order)}
    seen = [frozenset(other for other in order if {one, other} not in apart) for one in order]
    assert all(2 * len(each) > size for each in seen) and len(set(seen)) == size


def test_a_ring_of_three_separates_nobody() -> None:
    assert ring([1, 2, 3]) == []


@pytest.mark.parametrize("size", range(3, 8))
def test_only_the_bridge_sees_both_halves(size: int) -> None:
    order = Random(size).sample(range(1, size + 1), size)
    apart = {frozenset(pair) for pair in bridge(order)}
    seen = {one: {other for other in order if {one, other} not in apart} for one in order}
    assert [one for one in order if len(seen[one]) == size] == order[:1]
    assert len({frozenset(each) for each in seen.values()}) == 3
    assert max(len(each) for one, each in seen.items() if one != order[0]) <= size // 2 + 1


@pytest.mark.parametrize(
    ("target", "size", "pairs"),
    [
        ("isolate:2", 3, {(1, 2), (2, 3)}),
        ("pair:1-3", 3, {(1, 3)}),
        ("minority:3", 3, {(1, 3), (2, 3)}),
        ("minority:2-5", 5, {(1, 2), (2, 3), (2, 4), (1, 5), (3, 5), (4, 5)}),
        ("bridge:2-1-3", 3, {(1, 3)}),
        ("ring:1-2-3-4", 4, {(1, 3), (2, 4)}),
        ("controllers:4", 4, {(1, 4), (2, 4), (3, 4)}),
    ],
)
def test_a_shape_concerns_the_links_between_its_sides(
    target: str, size: int, pairs: set[tuple[int, int]]
) -> None:
    assert separated_pairs(target, size) == {frozenset(pair) for pair in pairs}


def test_a_broker_is_separated_from_the_controllers_and_not_from_the_brokers_that_they_also_are() -> None:
    context = fault_context(FakeCluster(size=4, network=FakeNetwork(links=real_links(4))))
    separated = separate(context, Target.parse("controllers:4"))
    assert separated.links == tuple(peer_link(4, controller, "ctl") for controller in (1, 2, 3))


@pytest.mark.parametrize("shape", TARGETS_OF_SHAPES)
@pytest.mark.parametrize("fault", ON_LINKS)
def test_each_effect_takes_each_shape_and_the_seed_draws_what_is_open(fault: str, shape: str) -> None:
    if (fault, shape.partition(":")[0]) == ("one-way", "ring"):
        return
    name = f"{fault}@{shape}"
    require_known_fault(name, NEMESES)
    drawn = {str(aim(name, NEMESES).draw_fault(Random(seed), FIVE).target) for seed in range(150)}
    assert drawn == TARGETS_OF_SHAPES[shape]
    schedule = draw([aim(name, NEMESES)], FIVE, 20, Random(1), chosen_by_user=True)
    (planned,) = schedule.planned_faults
    stored = planned.as_table()
    assert PlannedFault.from_table(stored) == planned
    assert planned.parameters.keys() == {"role", *NEMESES[fault].parameters}
    assert requested_name(stored, [fault, name]) == name


def test_every_shape_and_every_effect_is_tested_here() -> None:
    tested = {shape.partition(":")[0] for shape in TARGETS_OF_SHAPES}
    assert tested == SHAPE_ROLES.keys() == {*SHAPES, "client"}
    assert {name for name, nemesis in NEMESES.items() if "isolate" in nemesis.roles} == set(ON_LINKS)


@pytest.mark.parametrize("fault", ON_LINKS)
def test_without_a_shape_the_seed_draws_one_that_leaves_the_pipeline_able_to_go_on(fault: str) -> None:
    roles = set()
    for seed in range(60):
        drawn = NEMESES[fault].draw_fault(Random(seed), FIVE)
        roles.add(drawn.target.role)
        for name, values in NEMESES[fault].parameters.items():
            assert drawn.parameters[name] in values
    assert roles == {"isolate", "pair", "client"}


@pytest.mark.parametrize(
    ("name", "brokers", "message"),
    [
        ("partition@ring", 3, "partition@ring needs 4 brokers or more (with three, bridge is the same)"),
        ("half-open@bridge", 2, "half-open@bridge needs 3 brokers or more"),
        (
            "one-way@controllers",
            3,
            "needs a broker that is no controller (the controllers are brokers 1, 2 and 3): choose --brokers 4",
        ),
        (
            "partition@isolate:7",
            3,
            "isolate:7 does not name different brokers of the run (1, 2, 3): write for",
        ),
        ("partition@pair:1-1", 3, "pair:1-1 does not name different brokers of the run"),
        (
            "partition@minority:1-2",
            3,
            "minority:1-2 does not name different brokers of the run (1, 2, 3): write",
        ),
        ("partition@ring:1-2-3", 5, "write for example ring:1-2-3-4-5"),
        (
            "partition@controllers:1",
            5,
            "controllers:1 does not name brokers that are no controllers of the run (4, 5)",
        ),
        (
            "slow-network@client:w9-1",
            3,
            "client:w9-1 is no client endpoint and broker: write for example client:w",
        ),
    ],
)
def test_a_shape_that_the_run_cannot_have_is_refused(name: str, brokers: int, message: str) -> None:
    targets = replace(TARGETS, brokers=tuple(range(1, brokers + 1)))
    with pytest.raises(UsageError) as refused:
        draw([aim(name, NEMESES)], targets, 60, Random(1), chosen_by_user=True)
    assert message in str(refused.value) and "\n" not in str(refused.value)


def test_a_shape_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UsageError, match='there is no step or role "rings"; did you mean "ring"'):
        require_known_fault("partition@rings", NEMESES)
    with pytest.raises(UsageError, match='there is no step or role "ring"'):
        require_known_fault("one-way@ring", NEMESES)
    with pytest.raises(FaultFailed, match="there is no shape star"):
        separate(fault_context(FakeCluster()), Target("star", "1"))


def test_shapes_of_brokers_need_links_between_brokers() -> None:
    clients_only = replace(TARGETS, abilities=TARGETS.abilities - {Ability.PEER_LINKS})
    with pytest.raises(UsageError, match="needs a cluster on which one can cut brokers from each other"):
        draw([aim("partition@isolate", NEMESES)], clients_only, 60, Random(1), chosen_by_user=True)
    schedule = draw([aim("slow-network", NEMESES)], clients_only, 60, Random(1), chosen_by_user=True)
    assert {fault.target.role for fault in schedule.planned_faults} == {"client"}


@pytest.mark.parametrize(
    ("fault", "target", "struck", "details"),
    [
        ("partition", "isolate:1", "broker 1 was cut off from its peers", {"broker": "1"}),
        ("partition", "pair:1-2", "broker 1 was cut off from broker 2", {"broker": "1"}),
        ("partition", "minority:3", "broker 3 was cut off from the majority", {"broker": "3"}),
        (
            "partition",
            "minority:2-5",
            "each of brokers 2 and 5 was cut off from the majority",
            {"brokers": "2, 5"},
        ),
        (
            "partition",
            "ring:1-2-3-4-5",
            "each broker of the ring 1-2-3-4-5 was cut off from the brokers that are not its neighbours",
            {"brokers": "1, 2, 3, 4, 5"},
        ),
        (
            "partition",
            "bridge:5-1-2-3-4",
            "each of brokers 1 and 2 was cut off from brokers 3 and 4, except through broker 5",
            {"brokers": "5, 1, 2, 3, 4"},
        ),
        ("partition", "controllers:4", "broker 4 was cut off from the controllers", {"broker": "4"}),
        (
            "half-open",
            "pair:1-2",
            "the connections between broker 1 and broker 2 were half open",
            {"broker": "1"},
        ),
        ("slow-network", "isolate:1", "the links between broker 1 and its peers were slow", {"broker": "1"}),
    ],
)
def test_a_fault_says_what_it_separates(
    fault: str, target: str, struck: str, details: Mapping[str, str]
) -> None:
    parameters = {name: values[0] for name, values in NEMESES[fault].parameters.items()}
    planned = PlannedFault(fault, Target.parse(target), 0.0, 0.05, parameters)
    with NEMESES[fault].inject(fault_context(FakeCluster(size=5)), planned) as effect:
        pass
    assert effect.describe(NEMESES[fault].past_tense) == struck
    assert effect.details == {**details, "role": planned.target.role} and effect.acted


@pytest.mark.parametrize(
    ("loses", "target", "words", "responses_of"),
    [
        ("sent", "pair:1-2", "the bytes from broker 1 to broker 2", {(2, 1)}),
        ("received", "pair:1-2", "the bytes from broker 2 to broker 1", {(1, 2)}),
        ("sent", "isolate:1", "the bytes from broker 1 to its peers", {(2, 1), (3, 1)}),
        ("received", "isolate:1", "the bytes from its peers to broker 1", {(1, 2), (1, 3)}),
    ],
)
def test_the_bytes_of_one_direction_are_requests_where_the_sender_dials_and_responses_elsewhere(
    loses: str, target: str, words: str, responses_of: set[tuple[int, int]]
) -> None:
    cluster = FakeCluster()
    planned = PlannedFault("one-way", Target.parse(target), 0.0, 0.05, {"loses": loses})
    with NEMESES["one-way"].inject(fault_context(cluster), planned) as effect:
        pass
    assert effect.target == words
    lost = frozenset(peer_link(*ends, kind) for ends in responses_of for kind in ("int", "ctl"))
    assert {imposed for _, imposed in cluster.network.imposed} == {DropOneWay(lost)}
    assert lost < {link for link, _ in cluster.network.imposed}


@pytest.mark.processes
@pytest.mark.parametrize(("loses", "lost"), [("sent", ()), ("received", (client_link("w0", 1),))])
def test_a_client_loses_what_it_sends_or_what_it_would_receive(
    loses: str, lost: tuple[str, ...], tmp_path: Path
) -> None:
    planned = PlannedFault("one-way", Target("client", "w0-1"), 0.0, 0.05, {"loses": loses})
    with fake_run(tmp_path) as run:
        run.processes.await_ready([run.processes.start_worker("s", "s-1")])
        with NEMESES["one-way"].inject(run.context, planned) as effect:
            pass
        assert run.cluster.network.imposed == [(client_link("w0", 1), DropOneWay(frozenset(lost)))]
        source, target = ("worker s-1.0", "broker 1") if loses == "sent" else ("broker 1", "worker s-1.0")
        assert effect.describe("were lost") == f"the bytes from {source} to {target} were lost"
        assert effect.details == {"worker": "s-1.0", "broker": "1", "role": "client"}


@pytest.mark.parametrize("fault", ON_LINKS)
def test_an_effect_without_proof_did_not_act_and_is_healed(fault: str) -> None:
    cluster = FakeCluster(network=FakeNetwork(proof=""))
    parameters = {name: values[0] for name, values in NEMESES[fault].parameters.items()}
    planned = PlannedFault(fault, Target("isolate", "1"), 0.0, 0.05, parameters)
    with NEMESES[fault].inject(fault_context(cluster, time_scale=0.001), planned) as effect:
        assert cluster.network.affected
    assert not effect.acted and "nothing was sent into" in effect.unmet_goals["link-in-use"]
    assert not cluster.network.affected


def test_no_fault_waits_for_a_worker_while_a_shape_may_halt_the_pipeline() -> None:
    occupies = NEMESES["partition"].occupies
    for target in ("isolate:1", "pair:1-2", "minority:3", "client:w0-1", "controllers:4"):
        assert occupies(PlannedFault("partition", Target.parse(target), 0.0, 1.0)) == {Resource.BROKERS}
    for target in ("minority:2-5", "ring:1-2-3-4", "bridge:1-2-3-4-5", "controllers:4-5"):
        planned = PlannedFault("partition", Target.parse(target), 0.0, 1.0)
        assert occupies(planned) == {Resource.BROKERS, Resource.WORKERS}


def test_a_partition_cuts_the_links_of_its_shape() -> None:
    cluster = FakeCluster(size=4)
    planned = PlannedFault("partition", Target("ring", "1-2-3-4"), 0.0, 0.05)
    with NEMESES["partition"].inject(fault_context(cluster), planned):
        assert sorted(cluster.network.affected) == sorted([*links_between(1, 3), *links_between(2, 4)])
    assert {effect for _, effect in cluster.network.imposed} == {Cut()}
