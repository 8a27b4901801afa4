from collections.abc import Mapping
from itertools import count
from pathlib import Path

import pytest

from harness.cluster.broker_settings import check_settings
from harness.cluster.config import RESERVED_SETTINGS, PortLayout, broker_properties, count_ports, lay_out
from harness.cluster.storage import format_node, new_id
from harness.common.errors import UsageError
from harness.network.links import client_link, peer_link


@pytest.fixture
def layout() -> PortLayout:
    return lay_out(3, ("w0", "feed"), count(20000).__next__)


def said(layout: PortLayout, broker: int, settings: Mapping[str, str] | None = None) -> dict[str, str]:
    lines = broker_properties(layout, broker, Path("/data"), settings or {}).splitlines()
    return dict(line.split("=", 1) for line in lines)


def addresses(text: str) -> dict[str, int]:
    return {
        name: int(address.rpartition(":")[2])
        for name, address in (listener.split("://") for listener in text.split(","))
    }


def test_no_port_is_given_twice(layout: PortLayout) -> None:
    ports = [*layout.listeners.values(), *(proxy.listen_port for proxy in layout.links.values())]
    assert len({*ports, layout.toxiproxy}) == len(ports) + 1


def test_every_ordered_pair_and_every_endpoint_has_links_of_its_own(layout: PortLayout) -> None:
    assert len(layout.links) == 6 * 2 + 2 * 3
    assert len({proxy.upstream_port for proxy in layout.links.values()}) == len(layout.links)


@pytest.mark.parametrize("broker", [1, 2, 3])
def test_a_broker_advertises_every_listener_at_its_proxy(layout: PortLayout, broker: int) -> None:
    own = addresses(said(layout, broker)["listeners"])
    advertised = addresses(said(layout, broker)["advertised.listeners"])
    assert own.keys() == advertised.keys()
    unproxied = {name for name in own if own[name] == advertised[name]}
    assert unproxied == {"HARNESS", f"INT_{broker}", f"CTL_{broker}"}
    for peer in {1, 2, 3} - {broker}:
        proxy = layout.links[peer_link(peer, broker, "ctl")]
        assert advertised[f"CTL_{peer}"] == proxy.listen_port
        assert own[f"CTL_{peer}"] == proxy.upstream_port


def test_a_broker_dials_its_peers_through_proxies_and_itself_directly(layout: PortLayout) -> None:
    config = said(layout, 2)
    assert config["inter.broker.listener.name"] == "INT_2"
    assert config["controller.listener.names"].startswith("CTL_2,")
    voters = dict(voter.split("@127.0.0.1:") for voter in config["controller.quorum.voters"].split(","))
    assert int(voters["1"]) == layout.links[peer_link(2, 1, "ctl")].listen_port
    assert int(voters["2"]) == layout.controller_port(2)
    assert list(voters) == ["1", "2", "3"]


def test_a_endpoint_comes_in_by_its_own_proxies(layout: PortLayout) -> None:
    ports = [int(address.rpartition(":")[2]) for address in layout.bootstrap_for("feed").split(",")]
    assert ports == [layout.links[client_link("feed", broker)].listen_port for broker in (1, 2, 3)]
    assert layout.bootstrap_for("w0") != layout.bootstrap_for("feed")


def test_a_users_setting_wins_over_ours_but_not_over_the_structure(layout: PortLayout) -> None:
    config = said(layout, 1, {"min.insync.replicas": "1", "node.id": "9", "log.flush.interval.ms": "5"})
    assert config["min.insync.replicas"] == "1"
    assert config["log.flush.interval.ms"] == "5"
    assert config["node.id"] == "1"


def test_a_path_that_properties_would_misread_is_escaped(layout: PortLayout) -> None:
    text = broker_properties(layout, 1, Path("/tmp/run\\é😀"), {})
    assert "log.dirs=/tmp/run\\\\\\u00e9\\ud83d\\ude00\n" in text
    assert text.isascii()


def test_an_id_never_begins_with_a_hyphen() -> None:
    ids = [new_id() for _ in range(1000)]
    assert not any(id_.startswith("-") for id_ in ids)
    assert {len(id_) for id_ in ids} == {22}


def test_a_formatted_folder_names_the_cluster_the_node_and_itself(tmp_path: Path) -> None:
    for node in (1, 2):
        format_node(tmp_path / str(node), "one-cluster", node, b"features")
    first, second = ((tmp_path / name / "meta.properties").read_text().split() for name in ("1", "2"))
    assert first[:3] == ["version=1", "cluster.id=one-cluster", "node.id=1"]
    assert first[3].startswith("directory.id=")
    assert first[3] != second[3]
    assert (tmp_path / "1" / "bootstrap.checkpoint").read_bytes() == b"features"


def test_what_the_cluster_needs_for_itself_is_refused() -> None:
    """Else it would be passed over: each broker has its own."""
    for name in RESERVED_SETTINGS:
        with pytest.raises(UsageError, match=f"Fencepost sets {name} for each broker itself"):
            check_settings({name: "7"}, RESERVED_SETTINGS)
    assert check_settings({"num.partitions": "2"}, {"num.partitions"}) == []


def test_whatever_each_broker_has_of_its_own_is_refused(layout: PortLayout) -> None:
    plain, asked = said(layout, 1), said(layout, 1, dict.fromkeys(said(layout, 1), "x"))
    assert {name for name in plain if asked[name] != "x"} <= RESERVED_SETTINGS


@pytest.mark.parametrize(("brokers", "voters"), [(1, 1), (2, 1), (3, 3), (4, 3), (5, 3), (7, 3)])
def test_some_brokers_are_controllers_and_all_dial_them(brokers: int, voters: int) -> None:
    some = lay_out(brokers, ("w0",), count(20000).__next__)
    assert some.voters == tuple(range(1, voters + 1))
    ports = [*some.listeners.values(), *(proxy.listen_port for proxy in some.links.values()), some.toxiproxy]
    assert len(set(ports)) == len(ports) == count_ports(brokers, 1)
    for broker in some.brokers:
        config = said(some, broker)
        votes = broker in some.voters
        assert config["process.roles"] == ("broker,controller" if votes else "broker")
        assert (f"CTL_{broker}" in addresses(config["listeners"])) is votes
        assert f"CTL_{broker}:PLAINTEXT" in config["listener.security.protocol.map"]
        assert config["controller.listener.names"].split(",")[0] == f"CTL_{broker}"
        dialed = dict(voter.split("@127.0.0.1:") for voter in config["controller.quorum.voters"].split(","))
        assert list(dialed) == [str(voter) for voter in some.voters]
        for voter in set(some.voters) - {broker}:
            assert int(dialed[str(voter)]) == some.links[peer_link(broker, voter, "ctl")].listen_port


@pytest.mark.parametrize(
    ("brokers", "replicas", "least"), [(1, "1", "1"), (2, "2", "1"), (3, "3", "2"), (7, "3", "2")]
)
def test_there_are_as_many_replicas_as_brokers_and_at_most_three(
    brokers: int, replicas: str, least: str
) -> None:
    config = said(lay_out(brokers, (), count(20000).__next__), 1)
    for topic in ("default", "offsets.topic", "transaction.state.log"):
        assert config[f"{topic}.replication.factor"] == replicas
    assert config["min.insync.replicas"] == config["transaction.state.log.min.isr"] == least
