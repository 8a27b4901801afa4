"""Links are cut, and carry again."""

import time
from collections.abc import Mapping, Sequence

import pytest

from harness.cluster import Broker, Cluster
from harness.common.errors import FaultFailed
from harness.common.waiting import wait_for
from harness.network import ActiveEffect, Cut, DropResponses
from harness.network.links import client_link, links_around, peer_link
from tests.support.conformance.means import (
    ENDPOINT,
    HOST,
    MOVE_TIMEOUT_S,
    STILL_S,
    SYNC_TIMEOUT_S,
    TOPIC,
    WITHIN_S,
    Footing,
    comes_true,
    highs,
    load,
    moved_from,
    of,
)


def check_links_are_not_to_be_struck(cluster: Cluster) -> None:
    assert not cluster.network.links
    with (
        pytest.raises(FaultFailed),
        cluster.network.impose([client_link(ENDPOINT, 1)], Cut()),
    ):
        pass
    cluster.network.heal()  # nothing to heal is no error


def peer_links(cluster: Cluster) -> list[str]:
    """Those between brokers; a guest has none."""
    return [link for link in cluster.network.links if link.startswith("peer:")]


def _proof(cut: ActiveEffect) -> str:
    """Return its evidence, once bytes of the load have met the cut."""
    return wait_for(cut.evidence, "a proof of the cut", WITHIN_S, last_seen=lambda: cut.missing_proof)


def check_bytes_are_counted(cluster: Cluster, footing: Footing = HOST) -> None:
    """A meter counts what a client sends over its link, and what it is answered, or says that it cannot count."""
    topic = footing.name(TOPIC)
    with load(cluster, footing) as last:
        broker, led, _ = _one_leader(cluster, topic)
        link = client_link(ENDPOINT, broker)
        meter = cluster.network.meter([link])
        _acknowledged_since(last, led, time.monotonic())
        carried = meter.traffic()
        assert carried is None or (carried[link].requests > 0 and carried[link].responses > 0)


def check_a_cut_client_link(cluster: Cluster, footing: Footing = HOST) -> None:
    """Nothing passes: what is sent meanwhile to that broker is neither acknowledged nor written."""
    topic = footing.name(TOPIC)
    with load(cluster, footing) as last:
        broker, led, others = _one_leader(cluster, topic)
        link = client_link(ENDPOINT, broker)
        wait_for(lambda: cluster.network.connections([link])[link], "a connection on the link", WITHIN_S)
        with cluster.network.impose([link], Cut()) as cut:
            assert list(cut.links) == [link]
            assert _proof(cut), "a cut that stands cannot be shown to act"
            # What a busy broker had taken before is still written; twenty records a second would never be still.
            wait_for(
                lambda: _still(cluster, topic, last, led, others),
                "nothing to pass",
                MOVE_TIMEOUT_S,
                every_s=0.01,
            )
            assert cluster.out_of_sync() == [], "a cut of one client's link struck somebody else"
        assert cut.evidence() == ""
        _acknowledged_since(last, [*led, *others], time.monotonic())


def check_lost_answers(cluster: Cluster, footing: Footing = HOST) -> None:
    """What is asked arrives and is carried out, and nobody is told."""
    topic = footing.name(TOPIC)
    with load(cluster, footing) as last:
        broker, led, others = _one_leader(cluster, topic)
        link = client_link(ENDPOINT, broker)
        wait_for(lambda: cluster.network.connections([link])[link], "a connection on the link", WITHIN_S)
        with cluster.network.impose([link], DropResponses()) as cut:
            assert _proof(cut), "answers that are lost cannot be shown to be"
            _acknowledged_since(last, others, time.monotonic())
            before, high = dict(last), highs(cluster, topic, led)
            _acknowledged_since(last, others, time.monotonic() + STILL_S)
            assert {number: last[number] for number in led} == {number: before[number] for number in led}
            after = highs(cluster, topic, led)
            assert all(after[number] > high[number] for number in led), "what was asked did not arrive"
        _acknowledged_since(last, [*led, *others], time.monotonic())


def check_a_broker_that_is_cut_off(cluster: Cluster, footing: Footing = HOST) -> None:
    """It leaves every ISR and leads nothing in the others' view; there is no way round the cut."""
    ids = [broker.id for broker in cluster.brokers]
    topic = footing.name(TOPIC)
    kinds = {link.rpartition(":")[2] for link in peer_links(cluster)}
    assert {peer_link(a, b, kind) for a in ids for b in ids if a != b for kind in kinds} == set(
        peer_links(cluster)
    )
    with load(cluster, footing):
        broker = of(cluster, cluster.describe(topic)[0].leader)
        links = [link for link in links_around(broker.id, ids) if link in cluster.network.links]
        with cluster.network.impose(links, Cut()) as cut:
            assert sorted(cut.links) == sorted(links)
            evidence = _proof(cut)
            proven = {part.partition(": ")[0] for part in evidence.split("; ")}
            assert proven and proven <= set(links), evidence
            wait_for(lambda: moved_from(cluster, broker, footing), "other leaders", MOVE_TIMEOUT_S)
            wait_for(lambda: _out_of_every_isr(cluster, broker, topic), "the ISRs to shrink", MOVE_TIMEOUT_S)
            assert broker.running
            assert getattr(cluster, "bypasses", list)() == []
            # A cut that leaks would let it come back.
            leaks = comes_true(lambda: not _out_of_every_isr(cluster, broker, topic), STILL_S)
            assert not leaks, "the broker that is cut off came back into an ISR"
        assert cut.evidence() == ""
        cluster.await_in_sync(SYNC_TIMEOUT_S)
    cluster.network.heal()  # once more: nothing is left to heal


def _one_leader(cluster: Cluster, topic: str) -> tuple[int, list[int], list[int]]:
    """A broker, the partitions of a topic that it leads, and those that others lead."""
    views = cluster.describe(topic)
    broker = views[0].leader
    led = [number for number, view in views.items() if view.leader == broker]
    others = [number for number in views if number not in led]
    assert others, "one broker leads everything"
    return broker, led, others


def _acknowledged_since(last: Mapping[int, float], partitions: Sequence[int], since: float) -> None:
    wait_for(
        lambda: all(last[number] > since for number in partitions),
        f"partitions {partitions} to take another record",
        MOVE_TIMEOUT_S,
    )


def _still(
    cluster: Cluster, topic: str, last: Mapping[int, float], led: Sequence[int], others: Sequence[int]
) -> bool:
    """Whether nothing is written to some partitions, or acknowledged of them, while others take records."""
    before, high = dict(last), highs(cluster, topic, led)
    _acknowledged_since(last, others, time.monotonic() + STILL_S)
    acknowledged = [number for number in led if last[number] != before[number]]
    return not acknowledged and highs(cluster, topic, led) == high


def _out_of_every_isr(cluster: Cluster, broker: Broker, topic: str) -> bool:
    return all(broker.id not in view.isr for view in cluster.describe(topic).values())
