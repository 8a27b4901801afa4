"""Network effects become toxics. Equal toxics are shared. Different toxics can be on one stream together."""

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from typing import ClassVar

import pytest

from harness.common.errors import UsageError
from harness.network import (
    Cut,
    DropOneWay,
    DropResponses,
    HalfOpen,
    Latency,
    LinkEffect,
    RefuseConnections,
    toxics_of,
)
from harness.network.networks import ProxiedNetwork
from harness.network.toxiproxy import Proxy


@dataclass(frozen=True)
class Unknown(LinkEffect):
    action: ClassVar[str] = "bend bytes"


class Api:
    """A fake of toxiproxy's API. `active` has the type, stream and attributes of each toxic, by proxy and name."""

    def __init__(self) -> None:
        self.active: dict[tuple[str, str], tuple[str, str, dict[str, int]]] = {}
        self.added: list[tuple[str, str]] = []
        self.off: set[str] = set()

    def add_toxic(self, proxy: str, name: str, kind: str, stream: str, **attributes: int) -> None:
        assert (proxy, name) not in self.active, "toxiproxy refuses a toxic whose name is taken"
        self.active[proxy, name] = (kind, stream, attributes)
        self.added.append((kind, stream))

    def remove_toxic(self, proxy: str, name: str) -> None:
        del self.active[proxy, name]

    def enable(self, proxy: str, enabled: bool) -> None:
        assert (proxy in self.off) == enabled
        self.off ^= {proxy}


class Server:
    problem = ""

    def connections_by_port(self) -> Counter[int]:
        return Counter()

    def received_bytes(self) -> None:
        return None


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def network(api: Api) -> ProxiedNetwork:
    return ProxiedNetwork(api, Server(), {"a": Proxy("a", 1, 2), "b": Proxy("b", 3, 4)})  # type: ignore[arg-type]


def test_the_parameters_of_an_effect_become_attributes_of_its_toxic(
    network: ProxiedNetwork, api: Api
) -> None:
    with network.impose(["a"], Latency(250, 20)):
        assert list(api.active.values()) == [
            ("latency", stream, {"latency": 250, "jitter": 20}) for stream in ("upstream", "downstream")
        ]
    assert not api.active


def test_effects_with_different_parameters_can_be_active_together(network: ProxiedNetwork, api: Api) -> None:
    with network.impose(["a"], Latency(250)), network.impose(["a"], Latency(500)):
        assert [toxic[2]["latency"] for toxic in api.active.values()] == [250, 250, 500, 500]
    assert not api.active


def test_a_shared_toxic_stays_until_both_effects_have_ended(network: ProxiedNetwork, api: Api) -> None:
    with ExitStack() as both:
        with network.impose(["a"], Cut()):
            both.enter_context(network.impose(["a"], DropResponses()))
            assert [toxic[1] for toxic in api.active.values()] == ["upstream", "downstream"]
        assert [toxic[1] for toxic in api.active.values()] == ["downstream"]
    assert not api.active


def test_an_effect_that_toxiproxy_cannot_make_is_refused() -> None:
    with pytest.raises(UsageError, match="toxiproxy cannot bend bytes"):
        toxics_of(Unknown(), "a")


def test_one_direction_is_requests_on_one_link_and_responses_on_another(
    network: ProxiedNetwork, api: Api
) -> None:
    with network.impose(["a", "b"], DropOneWay(frozenset({"b"}))):
        assert {proxy: toxic[1] for (proxy, _), toxic in api.active.items()} == {
            "a": "upstream",
            "b": "downstream",
        }
    assert not api.active


def test_a_proxy_is_off_until_the_last_effect_that_refuses_connections_has_ended(
    network: ProxiedNetwork, api: Api
) -> None:
    with ExitStack() as both:
        with network.impose(["a"], RefuseConnections()):
            both.enter_context(network.impose(["a"], RefuseConnections()))
            assert api.off == {"a"}
        assert api.off == {"a"}
    assert not api.off and not api.active


def test_connections_become_half_open_by_a_toxic_that_is_removed_at_once(
    network: ProxiedNetwork, api: Api
) -> None:
    with network.impose(["a"], HalfOpen()):
        assert api.added == [("slow_close", "downstream"), ("timeout", "upstream")]
        assert [toxic[:2] for toxic in api.active.values()] == [("slow_close", "downstream")]
    assert not api.active
