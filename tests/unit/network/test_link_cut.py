"""A cut is proven by a link that was in use, is silent, and leads to a broker that answers."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest

from harness.network import Cut, DropResponses, LinkEffect
from harness.network.proxied import LinkCut
from harness.network.toxics import toxics_of
from harness.network.traffic import LocalConnection, ProxyPorts, ReceivedBytes, SocketMeter

SILENT, ANSWERS_LOST = Cut(), DropResponses()
PORTS = {"a": ProxyPorts(1001, 2001), "b": ProxyPorts(1002, 2002)}
CLIENT, BROKER = (
    LocalConnection(1001, 5001),
    LocalConnection(6001, 2001),
)  # the two connections of the proxy of link a


@dataclass
class Links:
    passing: set[str] = field(default_factory=set)
    answering: set[str] = field(default_factory=set)
    stands: dict[str, int] = field(default_factory=dict)
    sockets: dict[LocalConnection, int] | None = None
    probes: dict[LocalConnection, int] = field(
        default_factory=dict
    )  # what the harness's own requests leave behind

    def passes(self, link: str) -> bool:
        if self.sockets is not None:
            self.sockets |= self.probes
        return link in self.passing

    def reaches(self, link: str) -> bool:
        return link in self.answering

    def connections(self, links: Iterable[str]) -> dict[str, int]:
        return {link: self.stands.get(link, 0) for link in links}

    def received_bytes(self) -> ReceivedBytes | None:
        return None if self.sockets is None else dict(self.sockets)


def cut(links: Links, stood: dict[str, int], effect: LinkEffect = SILENT) -> LinkCut:
    return LinkCut(links, ["a", "b"], stood, SocketMeter(links.received_bytes, PORTS), toxics_of(effect))


@pytest.mark.parametrize(
    ("links", "stood", "proven"),
    [
        (Links(answering={"a", "b"}), {"a": 2, "b": 0}, ["a"]),  # b was not in use
        (Links(answering={"b"}), {"a": 2, "b": 1}, ["b"]),  # what is behind a is down, and answers nobody
        (Links(answering=set()), {"a": 2, "b": 1}, []),
        (Links(passing={"b"}, answering={"a", "b"}), {"a": 2, "b": 1}, []),  # it leaks
        (Links(answering={"a", "b"}), {"a": 0, "b": 0}, []),
        (
            Links(answering={"a", "b"}, stands={"b": 1}),
            {"a": 0, "b": 0},
            ["b"],
        ),  # somebody came after it was cut
        (Links(answering={"a"}, stands={"b": 1}), {"a": 0, "b": 0}, []),  # and found nobody behind it
    ],
)
def test_what_proves_a_cut_where_bytes_cannot_be_counted(
    links: Links, stood: dict[str, int], proven: list[str]
) -> None:
    told = cut(links, stood).evidence()
    assert [part.partition(":")[0] for part in told.split("; ") if part] == proven


def test_it_says_when_the_link_was_used() -> None:
    links = Links(answering={"a", "b"}, stands={"a": 1, "b": 1})
    before, after = cut(links, {"a": 2, "b": 0}).evidence().split("; ")
    assert before.startswith(
        "a: 2 connections existed when it was cut (bytes on it cannot be counted here), "
    )
    assert after.startswith("b: 1 connection opened after it was cut (bytes on it cannot be ")


@pytest.mark.parametrize(
    ("effect", "later", "requests", "answers"),
    [
        (SILENT, {CLIENT: 740}, 40, 0),
        (SILENT, {BROKER: 950}, 0, 50),  # what was asked before the cut is answered into it
        (SILENT, {CLIENT: 0, LocalConnection(1001, 5002): 30}, 30, 0),  # the client made another connection
        (ANSWERS_LOST, {CLIENT: 740, BROKER: 950}, 40, 50),
    ],
)
def test_bytes_that_were_sent_into_a_link_while_it_was_cut_prove_the_cut(
    effect: LinkEffect, later: dict[LocalConnection, int], requests: int, answers: int
) -> None:
    links = Links(answering={"a", "b"}, stands={"a": 1, "b": 1}, sockets={CLIENT: 700, BROKER: 900})
    one = cut(links, {"a": 1, "b": 1}, effect)
    links.sockets = {CLIENT: 700, BROKER: 900} | later
    assert one.evidence() == (
        f"a: {requests} bytes of requests and {answers} bytes of responses were sent into it while it was cut, "
        "a request through it stays unanswered, and a connection that bypasses it is answered"
    )
    assert one.missing_proof == ""


@pytest.mark.parametrize(
    ("effect", "later", "lacks"),
    [
        (SILENT, {}, "no bytes were sent into a, b while it was cut"),
        (ANSWERS_LOST, {CLIENT: 740}, "no responses were sent into a, b while it was cut"),
    ],
)
def test_connections_on_a_link_that_carried_nothing_prove_no_cut(
    effect: LinkEffect, later: dict[LocalConnection, int], lacks: str
) -> None:
    links = Links(answering={"a", "b"}, stands={"a": 1, "b": 1}, sockets={CLIENT: 700, BROKER: 900})
    one = cut(links, {"a": 1, "b": 1}, effect)
    links.sockets = {CLIENT: 700, BROKER: 900} | later
    assert (one.evidence(), one.missing_proof) == ("", lacks)


def test_a_cut_that_is_not_proven_says_what_was_seen_instead() -> None:
    links = Links(answering={"a"}, passing={"b"}, sockets={})
    one = cut(links, {"a": 0, "b": 0})
    links.sockets = {CLIENT: 10}
    assert (one.evidence(), one.missing_proof) == ("", "a request through b was answered, so it was not cut")
    links.passing, links.answering = set(), {"b"}
    assert (one.evidence(), one.missing_proof) == (
        "",
        "no broker answers behind a, with or without the proxy",
    )


def test_what_the_harness_itself_sends_through_a_link_is_not_counted() -> None:
    links = Links(
        answering={"a"}, sockets={}, probes={LocalConnection(1002, 5009): 20, LocalConnection(6009, 2002): 9}
    )
    meter = SocketMeter(links.received_bytes, PORTS)
    one = LinkCut(links, ["a", "b"], {"a": 0, "b": 0}, meter, toxics_of(SILENT))
    links.sockets = {CLIENT: 10}
    assert one.evidence()
    links.sockets |= {LocalConnection(6009, 2002): 400}  # its answer comes late
    assert meter.traffic() == {"a": (10, 0), "b": (0, 0)}
