"""Network effects become toxics. Equal toxics are shared. Different toxics can be on one stream together."""

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from typing import ClassVar

import pytest

from harness.common.errors import UsageError
from harness.network import Cut, DropResponses, LinkEffect
from harness.network.proxied import ProxiedNetwork
from harness.network.toxics import TOXICS, Toxic, toxics_of
from harness.network.toxiproxy import Proxy


@dataclass(frozen=True)
class Latency(LinkEffect):
    action: ClassVar[str] = "delay bytes"
    delay_s: float = 0.0


class Api:
    """A fake of toxiproxy's API. `active` has the type, stream and attributes of each toxic, by proxy and name."""

    def __init__(self) -> None:
        self.active: dict[tuple[str, str], tuple[str, str, dict[str, int]]] = {}

    def add_toxic(self, proxy: str, name: str, kind: str, stream: str, **attributes: int) -> None:
        assert (proxy, name) not in self.active, "toxiproxy refuses a toxic whose name is taken"
        self.active[proxy, name] = (kind, stream, attributes)

    def remove_toxic(self, proxy: str, name: str) -> None:
        del self.active[proxy, name]


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
def network(api: Api, monkeypatch: pytest.MonkeyPatch) -> ProxiedNetwork:
    """A network that can also make the effect `Latency`."""
    toxics_of_latency = {
        Latency: lambda effect: (
            Toxic("latency", "downstream", (("latency", round(effect.delay_s * 1000)),)),
        )
    }
    monkeypatch.setattr("harness.network.toxics.TOXICS", {**TOXICS, **toxics_of_latency})
    return ProxiedNetwork(api, Server(), {"a": Proxy("a", 1, 2)})  # type: ignore[arg-type]


def test_the_parameters_of_an_effect_become_attributes_of_its_toxic(
    network: ProxiedNetwork, api: Api
) -> None:
    with network.impose(["a"], Latency(delay_s=0.25)):
        assert list(api.active.values()) == [("latency", "downstream", {"latency": 250})]
    assert not api.active


def test_effects_with_different_parameters_can_be_active_together(network: ProxiedNetwork, api: Api) -> None:
    with network.impose(["a"], Latency(0.25)), network.impose(["a"], Latency(0.5)):
        assert [toxic[2]["latency"] for toxic in api.active.values()] == [250, 500]
    assert not api.active


def test_a_shared_toxic_stays_until_both_effects_have_ended(network: ProxiedNetwork, api: Api) -> None:
    with ExitStack() as both:
        with network.impose(["a"], Cut()):
            both.enter_context(network.impose(["a"], DropResponses()))
            assert [toxic[1] for toxic in api.active.values()] == ["upstream", "downstream"]
        assert [toxic[1] for toxic in api.active.values()] == ["downstream"]
    assert not api.active


def test_an_effect_that_toxiproxy_cannot_make_is_refused() -> None:
    with pytest.raises(UsageError, match="toxiproxy cannot delay bytes"):
        toxics_of(Latency())
