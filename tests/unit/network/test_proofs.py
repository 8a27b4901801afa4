"""An effect is proved if another process met it on a link, and if a request of the harness shows it there."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import pytest

from harness.network import (
    TOXICS,
    Bandwidth,
    Cut,
    DropOneWay,
    DropResponses,
    HalfOpen,
    Latency,
    LinkEffect,
    RefuseConnections,
    ResetConnections,
    Slices,
)
from harness.network.proofs import PROOFS, ToxicEffect, link_states
from harness.network.traffic import (
    LocalConnection,
    ProbeEnding,
    ProbeResult,
    ProxyPorts,
    ReceivedBytes,
    SocketMeter,
)

CUT, DROP_RESPONSES = Cut(), DropResponses()
PORTS = {"a": ProxyPorts(1001, 2001), "b": ProxyPorts(1002, 2002)}
# The two connections of the proxy of link a.
CLIENT, BROKER = LocalConnection(1001, 5001), LocalConnection(6001, 2001)
ANSWERED = ProbeResult(ProbeEnding.ANSWERED, 0.002, 1)
UNANSWERED = ProbeResult(ProbeEnding.UNANSWERED, 0.4)


@dataclass
class Links:
    passing_links: set[str] = field(default_factory=set)
    reachable_links: set[str] = field(default_factory=set)
    open_connections: dict[str, int] = field(default_factory=dict)
    sockets: dict[LocalConnection, int] | None = None  # None: bytes cannot be counted
    # The connections of the harness's own requests.
    probes: dict[LocalConnection, int] = field(default_factory=dict)
    # The results of requests through the links and past them, if they are neither as usual nor unanswered.
    through: dict[str, ProbeResult] = field(default_factory=dict)
    past: dict[str, ProbeResult] = field(default_factory=dict)

    def probe(self, link: str, extra_s: float = 0.0, padding_bytes: int = 0) -> ProbeResult:
        if self.sockets is not None:
            self.sockets |= self.probes
        return self.through.get(link, ANSWERED if link in self.passing_links else UNANSWERED)

    def probe_past(self, link: str, padding_bytes: int = 0) -> ProbeResult:
        return self.past.get(link, ANSWERED if link in self.reachable_links else UNANSWERED)

    def connections(self, links: Iterable[str]) -> dict[str, int]:
        return {link: self.open_connections.get(link, 0) for link in links}

    def received_bytes(self) -> ReceivedBytes | None:
        return None if self.sockets is None else dict(self.sockets)


def imposed(links: Links, connections_before: dict[str, int], effect: LinkEffect = CUT) -> ToxicEffect:
    """Return an effect that begins now."""
    meter = SocketMeter(links.received_bytes, PORTS)
    states = link_states(links, meter, ["a", "b"])
    before = {link: replace(states[link], connections=count) for link, count in connections_before.items()}
    return ToxicEffect(links, ["a", "b"], before, meter, effect)


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
    evidence = imposed(links, connections_before).evidence()
    assert [part.partition(":")[0] for part in evidence.split("; ") if part] == proven


def test_the_evidence_says_when_the_link_was_used() -> None:
    links = Links(reachable_links={"a", "b"}, open_connections={"a": 1, "b": 1})
    before, after = imposed(links, {"a": 2, "b": 0}).evidence().split("; ")
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
    link_cut = imposed(links, {"a": 1, "b": 1}, effect)
    links.sockets = {CLIENT: 700, BROKER: 900} | later
    assert link_cut.evidence() == (
        f"a: {requests} bytes of requests and {responses} bytes of responses were sent into it while it was cut, "
        "a request through it stays unanswered, and one that bypasses it is answered"
    )
    assert link_cut.missing_proof == ""
    links.through["a"] = ProbeResult(ProbeEnding.REFUSED)  # its proxy is gone, which is no cut
    assert link_cut.evidence() == "" and link_cut.missing_proof.startswith("a request through a is refused")


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
    link_cut = imposed(links, {"a": 1, "b": 1}, effect)
    links.sockets = {CLIENT: 700, BROKER: 900} | later
    assert (link_cut.evidence(), link_cut.missing_proof) == ("", missing_proof)


def test_a_cut_without_proof_says_why() -> None:
    links = Links(reachable_links={"a", "b"}, passing_links={"b"}, sockets={})
    link_cut = imposed(links, {"a": 0, "b": 0})
    links.sockets = {CLIENT: 10}
    answered = "is answered after 2 ms"
    assert (link_cut.evidence(), link_cut.missing_proof) == (
        "",
        f"a request through b {answered}, and one that bypasses it {answered}, so it was not cut",
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
    link_cut = ToxicEffect(links, ["a", "b"], link_states(links, meter, ["a", "b"]), meter, CUT)
    links.sockets = {CLIENT: 10}
    assert link_cut.evidence()
    links.sockets |= {LocalConnection(6009, 2002): 400}  # its response comes late
    assert meter.traffic() == {"a": (10, 0), "b": (0, 0)}


def test_every_effect_of_toxics_has_a_proof() -> None:
    assert PROOFS.keys() == TOXICS.keys()


@pytest.mark.parametrize(
    ("later", "counted"), [({CLIENT: 740}, "a"), ({BROKER: 950}, ""), ({LocalConnection(6002, 2002): 9}, "b")]
)
def test_only_bytes_of_the_lost_direction_prove_it(later: dict[LocalConnection, int], counted: str) -> None:
    links = Links(reachable_links={"a", "b"}, sockets={CLIENT: 700, BROKER: 900})
    effect = imposed(links, {"a": 1, "b": 1}, DropOneWay(frozenset({"b"})))  # requests on a, responses on b
    links.sockets = {CLIENT: 700, BROKER: 900} | later
    assert effect.evidence().partition(":")[0] == counted
    assert counted or effect.missing_proof == "no bytes were sent into a, b while it was cut"


@pytest.mark.parametrize(
    ("effect", "ending"),
    [(ResetConnections(), ProbeEnding.RESET), (RefuseConnections(), ProbeEnding.REFUSED)],
)
def test_an_ended_connection_and_the_end_of_a_request_prove_that_no_connection_is_possible(
    effect: LinkEffect, ending: ProbeEnding
) -> None:
    links = Links(reachable_links={"a", "b"}, sockets={CLIENT: 700, BROKER: 900})
    links.through = {"a": ProbeResult(ending), "b": ProbeResult(ending)}
    active = imposed(links, {"a": 1, "b": 0}, effect)
    assert active.evidence() == ""
    assert active.missing_proof == "no connection of the time before ended on a, b"
    links.sockets = {}
    assert active.evidence() == (
        f"a: 1 connection of the time before ended, a request through it {ending}, and one that bypasses it is answered"
    )
    other = ProbeEnding.REFUSED if ending is ProbeEnding.RESET else ProbeEnding.RESET
    for wrong in (other, ProbeEnding.UNANSWERED):
        links.through["b"] = ProbeResult(wrong)
        assert active.evidence() == "" and active.missing_proof.startswith(f"a request through b {wrong} ")
    links.through["b"] = ANSWERED  # it leaks, although nobody uses it
    assert active.evidence() == "" and active.missing_proof.startswith(
        "a request through b is answered after"
    )


def test_without_a_list_of_connections_their_number_before_is_enough() -> None:
    links = Links(reachable_links={"a", "b"}, through=dict.fromkeys("ab", ProbeResult(ProbeEnding.REFUSED)))
    evidence = imposed(links, {"a": 2, "b": 0}, RefuseConnections()).evidence()
    assert evidence.startswith("a: 2 connections existed before (whether they ended cannot be seen here), ")


def test_a_connection_without_its_other_end_is_half_open() -> None:
    links = Links(reachable_links={"a", "b"}, passing_links={"a", "b"}, sockets={CLIENT: 700, BROKER: 900})
    active = imposed(links, {"a": 1, "b": 0}, HalfOpen())
    assert active.evidence() == ""
    assert active.missing_proof == "no connection on a, b was left half open"
    links.sockets = {}  # both ends are closed
    assert active.evidence() == ""
    links.sockets = {CLIENT: 700, LocalConnection(6009, 2001): 1}  # a new connection to the broker
    assert active.evidence().startswith(
        "a: the dialing end of 1 connection stayed open, and the other end of each"
    )
    links.passing_links = {"a"}
    assert active.evidence() == "" and active.missing_proof.startswith("a request through b stays unanswered")


def test_half_open_connections_cannot_be_proved_where_connections_cannot_be_listed() -> None:
    active = imposed(Links(), {"a": 1, "b": 1}, HalfOpen())
    assert active.evidence() == ""
    assert active.missing_proof == "the connections of a proxy cannot be listed on this machine"


@pytest.mark.parametrize(
    ("effect", "shows", "shows_not"),
    [
        (Latency(100, 20), ProbeResult(ProbeEnding.ANSWERED, 0.13), ProbeResult(ProbeEnding.ANSWERED, 0.12)),
        (Bandwidth(50), ProbeResult(ProbeEnding.ANSWERED, 0.41), ProbeResult(ProbeEnding.ANSWERED, 0.39)),
        (Slices(50), ProbeResult(ProbeEnding.ANSWERED, 0.1, 2), ProbeResult(ProbeEnding.ANSWERED, 0.1, 1)),
    ],
)
def test_a_request_must_show_the_effect_and_one_past_the_link_must_not(
    effect: LinkEffect, shows: ProbeResult, shows_not: ProbeResult
) -> None:
    links = Links(reachable_links={"a", "b"}, sockets={CLIENT: 700}, through={"a": shows, "b": shows})
    active = imposed(links, {"a": 1, "b": 0}, effect)
    assert active.evidence() == "" and active.missing_proof.startswith(
        "no bytes were sent into a, b while it was "
    )
    links.sockets = {CLIENT: 740}
    assert active.evidence().startswith(
        "a: 40 bytes of requests and 0 bytes of responses were sent into it while"
    )
    for through, past in ((shows_not, ANSWERED), (shows, shows), (UNANSWERED, ANSWERED)):
        links.through["a"], links.past["a"] = through, past
        assert active.evidence() == "" and active.missing_proof.startswith("a request through a ")
