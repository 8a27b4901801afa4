"""Checks that a cluster can cut links, drop responses, and heal."""

import time
from collections.abc import Mapping, Sequence

import pytest

from harness.cluster import Broker, Cluster
from harness.common.errors import FaultFailed
from harness.common.waiting import wait_for
from harness.network import ActiveEffect, Cut, DropResponses, client_link, links_around, peer_link
from tests.support.conformance.means import (
    ENDPOINT,
    MOVE_TIMEOUT_S,
    ONLY_USER,
    QUIET_S,
    SYNC_TIMEOUT_S,
    TIMEOUT_S,
    TOPIC,
    ClusterUser,
    becomes_true,
    broker_of,
    has_moved_leaders,
    high_watermarks,
    write_load,
)


def check_cluster_offers_no_links(cluster: Cluster) -> None:
    assert not cluster.network.links
    with (
        pytest.raises(FaultFailed),
        cluster.network.impose([client_link(ENDPOINT, 1)], Cut()),
    ):
        pass
    cluster.network.heal()  # nothing to heal is no error


def peer_links(cluster: Cluster) -> list[str]:
    """The links between brokers. A user of a shared cluster has none."""
    return [link for link in cluster.network.links if link.startswith("peer:")]


def _proof(cut: ActiveEffect) -> str:
    """Wait until the cut has stopped bytes of the load, and return the evidence."""
    return wait_for(cut.evidence, "a proof of the cut", TIMEOUT_S, last_seen=lambda: cut.missing_proof)


def check_bytes_are_counted(cluster: Cluster, user: ClusterUser = ONLY_USER) -> None:
    """A meter counts the bytes of requests and responses of a link, or returns None if it cannot count."""
    topic = user.name(TOPIC)
    with write_load(cluster, user) as last:
        broker, led, _ = _one_leader(cluster, topic)
        link = client_link(ENDPOINT, broker)
        meter = cluster.network.meter([link])
        _acknowledged_since(last, led, time.monotonic())
        carried = meter.traffic()
        assert carried is None or (carried[link].requests > 0 and carried[link].responses > 0)


def check_a_cut_client_link(cluster: Cluster, user: ClusterUser = ONLY_USER) -> None:
    """During the cut, the broker neither acknowledges nor writes a record of this client."""
    topic = user.name(TOPIC)
    with write_load(cluster, user) as last:
        broker, led, others = _one_leader(cluster, topic)
        link = client_link(ENDPOINT, broker)
        wait_for(lambda: cluster.network.connections([link])[link], "a connection on the link", TIMEOUT_S)
        with cluster.network.impose([link], Cut()) as cut:
            assert list(cut.links) == [link]
            assert _proof(cut), "an active cut has no evidence"
            # A busy broker still writes records that it received before the cut.
            wait_for(
                lambda: _is_quiet(cluster, topic, last, led, others),
                "nothing to pass",
                MOVE_TIMEOUT_S,
                every_s=0.01,
            )
            assert cluster.out_of_sync() == [], "a cut of one client's link had an effect on replication"
        assert cut.evidence() == ""
        _acknowledged_since(last, [*led, *others], time.monotonic())


def check_dropped_responses(cluster: Cluster, user: ClusterUser = ONLY_USER) -> None:
    """The broker carries out requests, but the client gets no response."""
    topic = user.name(TOPIC)
    with write_load(cluster, user) as last:
        broker, led, others = _one_leader(cluster, topic)
        link = client_link(ENDPOINT, broker)
        wait_for(lambda: cluster.network.connections([link])[link], "a connection on the link", TIMEOUT_S)
        with cluster.network.impose([link], DropResponses()) as cut:
            assert _proof(cut), "dropped responses have no evidence"
            _acknowledged_since(last, others, time.monotonic())
            before, high = dict(last), high_watermarks(cluster, topic, led)
            _acknowledged_since(last, others, time.monotonic() + QUIET_S)
            assert {number: last[number] for number in led} == {number: before[number] for number in led}
            after = high_watermarks(cluster, topic, led)
            assert all(after[number] > high[number] for number in led), "the requests did not arrive"
        _acknowledged_since(last, [*led, *others], time.monotonic())


def check_a_broker_that_is_cut_off(cluster: Cluster, user: ClusterUser = ONLY_USER) -> None:
    """The broker leaves every ISR and leads no partition, and no connection bypasses the cut."""
    ids = [broker.id for broker in cluster.brokers]
    topic = user.name(TOPIC)
    kinds = {link.rpartition(":")[2] for link in peer_links(cluster)}
    assert {peer_link(a, b, kind) for a in ids for b in ids if a != b for kind in kinds} == set(
        peer_links(cluster)
    )
    with write_load(cluster, user):
        broker = broker_of(cluster, cluster.describe(topic)[0].leader)
        links = [link for link in links_around(broker.id, ids) if link in cluster.network.links]
        with cluster.network.impose(links, Cut()) as cut:
            assert sorted(cut.links) == sorted(links)
            evidence = _proof(cut)
            proven = {part.partition(": ")[0] for part in evidence.split("; ")}
            assert proven and proven <= set(links), evidence
            wait_for(lambda: has_moved_leaders(cluster, broker, user), "other leaders", MOVE_TIMEOUT_S)
            wait_for(lambda: _out_of_every_isr(cluster, broker, topic), "the ISRs to shrink", MOVE_TIMEOUT_S)
            assert broker.running
            assert getattr(cluster, "bypasses", list)() == []
            # If the cut leaked, the broker would come back into an ISR.
            leaks = becomes_true(lambda: not _out_of_every_isr(cluster, broker, topic), QUIET_S)
            assert not leaks, "the broker that is cut off came back into an ISR"
        assert cut.evidence() == ""
        cluster.await_in_sync(SYNC_TIMEOUT_S)
    cluster.network.heal()  # a second time: there is nothing to heal


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


def _is_quiet(
    cluster: Cluster, topic: str, last: Mapping[int, float], led: Sequence[int], others: Sequence[int]
) -> bool:
    """Whether the partitions `led` get no record and no acknowledgement while `others` do."""
    before, high = dict(last), high_watermarks(cluster, topic, led)
    _acknowledged_since(last, others, time.monotonic() + QUIET_S)
    acknowledged = [number for number in led if last[number] != before[number]]
    return not acknowledged and high_watermarks(cluster, topic, led) == high


def _out_of_every_isr(cluster: Cluster, broker: Broker, topic: str) -> bool:
    return all(broker.id not in view.isr for view in cluster.describe(topic).values())
