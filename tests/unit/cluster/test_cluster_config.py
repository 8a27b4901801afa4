from collections.abc import Mapping
from itertools import count
from pathlib import Path

import pytest

from harness.cluster.config import (
    RESERVED_SETTINGS,
    Hosts,
    PortLayout,
    broker_properties,
    check_settings,
    count_ports,
    lay_out,
)
from harness.cluster.started_node import format_node, new_id
from harness.common.errors import UsageError
from harness.network import client_link, peer_link


@pytest.fixture
def layout() -> PortLayout:
    return lay_out(3, ("w0", "feed"), count(20000).__next__)


def properties_of(
    layout: PortLayout, broker: int, settings: Mapping[str, str] | None = None
) -> dict[str, str]:
    lines = broker_properties(layout, broker, Path("/data"), settings or {}).splitlines()
    return dict(line.split("=", 1) for line in lines)


def addresses(text: str) -> dict[str, int]:
    return {
        name: int(address.rpartition(":")[2])
        for name, address in (listener.split("://") for listener in text.split(","))
    }


def test_all_ports_are_different(layout: PortLayout) -> None:
    ports = [*layout.listeners.values(), *(proxy.listen_port for proxy in layout.links.values())]
    assert len({*ports, layout.toxiproxy}) == len(ports) + 1


def test_each_link_has_its_own_upstream_port(layout: PortLayout) -> None:
    assert len(layout.links) == 6 * 2 + 2 * 3
    assert len({proxy.upstream_port for proxy in layout.links.values()}) == len(layout.links)


@pytest.mark.parametrize("broker", [1, 2, 3])
def test_a_broker_advertises_every_listener_at_its_proxy(layout: PortLayout, broker: int) -> None:
    listeners = addresses(properties_of(layout, broker)["listeners"])
    advertised = addresses(properties_of(layout, broker)["advertised.listeners"])
    assert listeners.keys() == advertised.keys()
    without_proxy = {name for name in listeners if listeners[name] == advertised[name]}
    assert without_proxy == {"HARNESS", f"INT_{broker}", f"CTL_{broker}"}
    for peer in {1, 2, 3} - {broker}:
        proxy = layout.links[peer_link(peer, broker, "ctl")]
        assert advertised[f"CTL_{peer}"] == proxy.listen_port
        assert listeners[f"CTL_{peer}"] == proxy.upstream_port


def test_a_broker_dials_its_peers_through_proxies_but_itself_directly(layout: PortLayout) -> None:
    config = properties_of(layout, 2)
    assert config["inter.broker.listener.name"] == "INT_2"
    assert config["controller.listener.names"].startswith("CTL_2,")
    voters = dict(voter.split("@127.0.0.1:") for voter in config["controller.quorum.voters"].split(","))
    assert int(voters["1"]) == layout.links[peer_link(2, 1, "ctl")].listen_port
    assert int(voters["2"]) == layout.controller_port(2)
    assert list(voters) == ["1", "2", "3"]


def test_the_bootstrap_addresses_of_an_endpoint_are_its_proxies(layout: PortLayout) -> None:
    ports = [int(address.rpartition(":")[2]) for address in layout.bootstrap_for("feed").split(",")]
    assert ports == [layout.links[client_link("feed", broker)].listen_port for broker in (1, 2, 3)]
    assert layout.bootstrap_for("w0") != layout.bootstrap_for("feed")


def test_a_user_overrides_settings_except_the_reserved_ones(layout: PortLayout) -> None:
    config = properties_of(
        layout, 1, {"min.insync.replicas": "1", "node.id": "9", "log.flush.interval.ms": "5"}
    )
    assert config["min.insync.replicas"] == "1"
    assert config["log.flush.interval.ms"] == "5"
    assert config["node.id"] == "1"


def test_special_characters_of_a_path_are_escaped(layout: PortLayout) -> None:
    text = broker_properties(layout, 1, Path("/tmp/run\\é😀"), {})
    assert "log.dirs=/tmp/run\\\\\\u00e9\\ud83d\\ude00\n" in text
    assert text.isascii()


def test_an_id_never_begins_with_a_hyphen() -> None:
    ids = [new_id() for _ in range(1000)]
    assert not any(id_.startswith("-") for id_ in ids)
    assert {len(id_) for id_ in ids} == {22}


def test_a_node_has_the_ids_of_cluster_node_and_folder_and_the_features(tmp_path: Path) -> None:
    for node in (1, 2):
        format_node(tmp_path / str(node), "one-cluster", node, {"metadata/first.checkpoint": b"features"})
    first, second = ((tmp_path / name / "meta.properties").read_text().split() for name in ("1", "2"))
    assert first[:3] == ["version=1", "cluster.id=one-cluster", "node.id=1"]
    assert first[3].startswith("directory.id=")
    assert first[3] != second[3]
    assert (tmp_path / "1" / "metadata" / "first.checkpoint").read_bytes() == b"features"


def test_a_reserved_setting_is_refused() -> None:
    for name in RESERVED_SETTINGS:
        with pytest.raises(UsageError, match=f"Fencepost sets {name} for each broker itself"):
            check_settings({name: "7"}, RESERVED_SETTINGS)
    assert check_settings({"num.partitions": "2"}, {"num.partitions"}) == []


def test_all_settings_that_a_user_cannot_override_are_reserved(layout: PortLayout) -> None:
    defaults = properties_of(layout, 1)
    overridden = properties_of(layout, 1, dict.fromkeys(defaults, "x"))
    assert {name for name in defaults if overridden[name] != "x"} <= RESERVED_SETTINGS


@pytest.mark.parametrize("machine", ["127.0.0.1", "host.docker.internal"])
def test_decoded_links_pass_through_a_port_of_the_protocol_proxy_each(machine: str) -> None:
    hosts = Hosts("0.0.0.0", "toxiproxy", "broker-{broker}", machine)
    layout = lay_out(3, ("w0",), count(20000).__next__, hosts, ("client", "peer"))
    decoded = {link.name: link for link in layout.protocol_links}
    assert set(decoded) == {name for name in layout.links if not name.endswith(":ctl")}
    behind = {proxy.listen_port: proxy for proxy in layout.behind}
    for name, link in decoded.items():
        front, broker = layout.links[name], int(name.removesuffix(":int").rpartition("->")[2])
        assert (front.upstream_host, front.upstream_port) == (machine, link.port)
        host, port = link.broker
        assert host == "127.0.0.1"
        if machine != host:  # brokers in containers are dialed through toxiproxy
            assert behind[port].upstream_host == f"broker-{broker}"
            port = behind[port].upstream_port
        assert port in {port for (owner, _), port in layout.listeners.items() if owner == broker}
    ports = [
        *layout.listeners.values(),
        *(proxy.listen_port for proxy in (*layout.links.values(), *layout.behind)),
        *(link.port for link in layout.protocol_links),
        layout.toxiproxy,
    ]
    assert len(ports) == len(set(ports)) <= count_ports(3, 1, ("client", "peer"))


@pytest.mark.parametrize(("brokers", "voters"), [(1, 1), (2, 1), (3, 3), (4, 3), (5, 3), (7, 3)])
def test_up_to_three_brokers_are_controllers_and_all_dial_them(brokers: int, voters: int) -> None:
    layout = lay_out(brokers, ("w0",), count(20000).__next__)
    assert layout.voters == tuple(range(1, voters + 1))
    ports = [
        *layout.listeners.values(),
        *(proxy.listen_port for proxy in layout.links.values()),
        layout.toxiproxy,
    ]
    assert len(set(ports)) == len(ports) == count_ports(brokers, 1)
    for broker in layout.brokers:
        config = properties_of(layout, broker)
        is_voter = broker in layout.voters
        assert config["process.roles"] == ("broker,controller" if is_voter else "broker")
        assert (f"CTL_{broker}" in addresses(config["listeners"])) is is_voter
        assert f"CTL_{broker}:PLAINTEXT" in config["listener.security.protocol.map"]
        assert config["controller.listener.names"].split(",")[0] == f"CTL_{broker}"
        dialed = dict(voter.split("@127.0.0.1:") for voter in config["controller.quorum.voters"].split(","))
        assert list(dialed) == [str(voter) for voter in layout.voters]
        for voter in set(layout.voters) - {broker}:
            assert int(dialed[str(voter)]) == layout.links[peer_link(broker, voter, "ctl")].listen_port


@pytest.mark.parametrize(
    ("brokers", "replicas", "min_isr"), [(1, "1", "1"), (2, "2", "1"), (3, "3", "2"), (7, "3", "2")]
)
def test_the_replication_factor_is_the_number_of_brokers_up_to_three(
    brokers: int, replicas: str, min_isr: str
) -> None:
    config = properties_of(lay_out(brokers, (), count(20000).__next__), 1)
    for topic in ("default", "offsets.topic", "transaction.state.log"):
        assert config[f"{topic}.replication.factor"] == replicas
    assert config["min.insync.replicas"] == config["transaction.state.log.min.isr"] == min_isr
