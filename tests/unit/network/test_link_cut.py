"""A cut is proven if a link was in use, gives no answer, and leads to a broker that answers."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest

from harness.network import Cut, DropResponses, LinkEffect
from harness.network.proxied import LinkCut
from harness.network.toxics import toxics_of
from harness.network.traffic import LocalConnection, ProxyPorts, ReceivedBytes, SocketMeter

CUT, DROP_RESPONSES = Cut(), DropResponses()
PORTS = {"a": ProxyPorts(1001, 2001), "b": ProxyPorts(1002, 2002)}
# The two connections of the proxy of link a.
CLIENT, BROKER = LocalConnection(1001, 5001), LocalConnection(6001, 2001)


@dataclass
class Links:
    passing_links: set[str] = field(default_factory=set)
    reachable_links: set[str] = field(default_factory=set)
    open_connections: dict[str, int] = field(default_factory=dict)
    sockets: dict[LocalConnection, int] | None = None  # None: bytes cannot be counted
    # The connections of the harness's own requests.
    probes: dict[LocalConnection, int] = field(default_factory=dict)

    def passes(self, link: str) -> bool:
        if self.sockets is not None:
            self.sockets |= self.probes
        return link in self.passing_links

    def reaches(self, link: str) -> bool:
        return link in self.reachable_links

    def connections(self, links: Iterable[str]) -> dict[str, int]:
        return {link: self.open_connections.get(link, 0) for link in links}

    def received_bytes(self) -> ReceivedBytes | None:
        return None if self.sockets is None else dict(self.sockets)


def cut(links: Links, connections_before: dict[str, int], effect: LinkEffect = CUT) -> LinkCut:
    return LinkCut(
        links, ["a", "b"], connections_before, SocketMeter(links.received_bytes, PORTS), toxics_of(effect)
    )


@pytest.mark.parametrize(
    ("links", "connections_before", "proven"),
    [
        (Links(reachable_links={"a", "b"}), {"a": 2, "b": 0}, ["a"]),  # b was not in use
        (Links(reachable_links={"b"}), {"a": 2, "b": 1}, ["b"]),  # the broker of link a is down
        (Links(reachable_links=set()), {"a": 2, "b": 1}, []),
        (Links(passing_links={"b"}, reachable_links={"a", "b"}), {"a": 2, "b": 1}, []),  # it leaks
        (Links(reachable_links={"a", "b"}), {"a": 0, "b": 0}, []),
        # A client connected after the cut.
        (Links(reachable_links={"a", "b"}, open_connections={"b": 1}), {"a": 0, "b": 0}, ["b"]),
        # A client connected after the cut, but the broker of link b is down.
        (Links(reachable_links={"a"}, open_connections={"b": 1}), {"a": 0, "b": 0}, []),
    ],
)
def test_connections_prove_a_cut_if_bytes_cannot_be_counted(
    links: Links, connections_before: dict[str, int], proven: list[str]
) -> None:
    evidence = cut(links, connections_before).evidence()
    assert [part.partition(":")[0] for part in evidence.split("; ") if part] == proven


def test_the_evidence_says_when_the_link_was_used() -> None:
    links = Links(reachable_links={"a", "b"}, open_connections={"a": 1, "b": 1})
    before, after = cut(links, {"a": 2, "b": 0}).evidence().split("; ")
    assert before.startswith(
        "a: 2 connections existed when it was cut (bytes on it cannot be counted here), "
    )
    assert after.startswith("b: 1 connection opened after it was cut (bytes on it cannot be ")


@pytest.mark.parametrize(
    ("effect", "later", "requests", "responses"),
    [
        (CUT, {CLIENT: 740}, 40, 0),
        (CUT, {BROKER: 950}, 0, 50),  # the response to a request from before the cut
        (CUT, {CLIENT: 0, LocalConnection(1001, 5002): 30}, 30, 0),  # the client made another connection
        (DROP_RESPONSES, {CLIENT: 740, BROKER: 950}, 40, 50),
    ],
)
def test_bytes_that_were_sent_into_a_link_prove_its_cut(
    effect: LinkEffect, later: dict[LocalConnection, int], requests: int, responses: int
) -> None:
    links = Links(
        reachable_links={"a", "b"}, open_connections={"a": 1, "b": 1}, sockets={CLIENT: 700, BROKER: 900}
    )
    link_cut = cut(links, {"a": 1, "b": 1}, effect)
    links.sockets = {CLIENT: 700, BROKER: 900} | later
    assert link_cut.evidence() == (
        f"a: {requests} bytes of requests and {responses} bytes of responses were sent into it while it was cut, "
        "a request through it stays unanswered, and a connection that bypasses it is answered"
    )
    assert link_cut.missing_proof == ""


@pytest.mark.parametrize(
    ("effect", "later", "missing_proof"),
    [
        (CUT, {}, "no bytes were sent into a, b while it was cut"),
        (DROP_RESPONSES, {CLIENT: 740}, "no responses were sent into a, b while it was cut"),
    ],
)
def test_connections_without_bytes_do_not_prove_a_cut(
    effect: LinkEffect, later: dict[LocalConnection, int], missing_proof: str
) -> None:
    links = Links(
        reachable_links={"a", "b"}, open_connections={"a": 1, "b": 1}, sockets={CLIENT: 700, BROKER: 900}
    )
    link_cut = cut(links, {"a": 1, "b": 1}, effect)
    links.sockets = {CLIENT: 700, BROKER: 900} | later
    assert (link_cut.evidence(), link_cut.missing_proof) == ("", missing_proof)


def test_a_cut_without_proof_says_why() -> None:
    links = Links(reachable_links={"a"}, passing_links={"b"}, sockets={})
    link_cut = cut(links, {"a": 0, "b": 0})
    links.sockets = {CLIENT: 10}
    assert (link_cut.evidence(), link_cut.missing_proof) == (
        "",
        "a request through b was answered, so it was not cut",
    )
    links.passing_links, links.reachable_links = set(), {"b"}
    assert (link_cut.evidence(), link_cut.missing_proof) == (
        "",
        "no broker answers behind a, with or without the proxy",
    )


def test_bytes_that_the_harness_sends_through_a_link_are_not_counted() -> None:
    links = Links(
        reachable_links={"a"},
        sockets={},
        probes={LocalConnection(1002, 5009): 20, LocalConnection(6009, 2002): 9},
    )
    meter = SocketMeter(links.received_bytes, PORTS)
    link_cut = LinkCut(links, ["a", "b"], {"a": 0, "b": 0}, meter, toxics_of(CUT))
    links.sockets = {CLIENT: 10}
    assert link_cut.evidence()
    links.sockets |= {LocalConnection(6009, 2002): 400}  # its response comes late
    assert meter.traffic() == {"a": (10, 0), "b": (0, 0)}
