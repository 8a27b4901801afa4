"""The proof that a network effect acts: what another process met on a link, and what a request of the harness shows.

Both are needed. The harness alone would prove an effect on a link that nobody uses. Without its request, a broker that
is down would look like a cut.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

from harness.common.wording import plural
from harness.network import (
    Bandwidth,
    Cut,
    DropOneWay,
    DropResponses,
    HalfOpen,
    Latency,
    LinkEffect,
    LinkTraffic,
    RefuseConnections,
    ResetConnections,
    Slices,
)
from harness.network.traffic import LinkEnds, ProbeEnding, ProbeResult, SocketMeter

PADDING_S = 0.5
"""How long the request of the harness takes at a limited bandwidth."""
SHARE = 0.8
"""The share of the expected time that a request must take. Toxiproxy adds its delays to what has already passed."""


@dataclass(frozen=True)
class LinkState:
    """The connections on a link at one time."""

    connections: int
    ends: LinkEnds | None  # None: they cannot be listed


@dataclass(frozen=True)
class LinkUse:
    """What other processes did on a link since an effect began."""

    before: LinkState
    now: LinkState
    traffic: LinkTraffic | None  # None: it cannot be counted


Shown = Callable[[ProbeResult, ProbeResult], str]
"""Describes what a request through a link shows, next to one that bypasses it. "" if it shows no effect."""


@dataclass(frozen=True)
class Proof(ABC):
    """What proves one kind of effect on a link."""

    state: str  # completes "... was not ...": cut, slow
    shown: Shown
    least_s: float = 0.0  # how long the request of the harness takes at least
    padding_bytes: int = 0  # how much longer than usual the request of the harness is

    @abstractmethod
    def describe_use(self, link: str, use: LinkUse) -> str:
        """Describe how another process met the effect. "" if none did."""

    @abstractmethod
    def describe_no_use(self, links: Sequence[str], use: Iterable[LinkUse]) -> str:
        """Say that no process met the effect on these links."""


@dataclass(frozen=True)
class BytesProof(Proof):
    """Another process has sent bytes into the link. If bytes cannot be counted, a connection is enough."""

    streams: Callable[[str], tuple[str, ...]] = lambda link: ("requests", "responses")  # those that count

    def describe_use(self, link: str, use: LinkUse) -> str:
        if use.traffic is None:
            connections = self._describe_connections(use.before.connections, use.now.connections)
            return connections and f"{connections} (bytes on it cannot be counted here)"
        if not any(getattr(use.traffic, stream) for stream in self.streams(link)):
            return ""
        requests, responses = use.traffic
        sent = f"{requests} bytes of requests and {responses} bytes of responses were sent into it"
        return f"{sent} while it was {self.state}"

    def describe_no_use(self, links: Sequence[str], use: Iterable[LinkUse]) -> str:
        if all(each.traffic is None for each in use):
            return f"no connection was on {', '.join(links)} while it was {self.state}"
        streams = {self.streams(link) for link in links}
        kind = "responses" if streams == {("responses",)} else "bytes"
        return f"no {kind} were sent into {', '.join(links)} while it was {self.state}"

    def _describe_connections(self, before: int, now: int) -> str:
        """Describe the connections of the time before. If there were none, describe those that were opened later."""
        if before:
            return f"{plural(before, 'connection')} existed when it was {self.state}"
        return f"{plural(now, 'connection')} opened after it was {self.state}" if now else ""


@dataclass(frozen=True)
class ClosedProof(Proof):
    """A connection of another process has ended. If connections cannot be listed, it is enough that there was one."""

    def describe_use(self, link: str, use: LinkUse) -> str:
        before, now = use.before.ends, use.now.ends
        if before is not None and now is not None:
            ended = len(before.dialing - now.dialing)
            return f"{plural(ended, 'connection')} of the time before ended" if ended else ""
        if not (count := use.before.connections):
            return ""
        return f"{plural(count, 'connection')} existed before (whether they ended cannot be seen here)"

    def describe_no_use(self, links: Sequence[str], use: Iterable[LinkUse]) -> str:
        return f"no connection of the time before ended on {', '.join(links)}"


@dataclass(frozen=True)
class HalfOpenProof(Proof):
    """The dialing end of another process's connection is open, and the other end of none is."""

    def describe_use(self, link: str, use: LinkUse) -> str:
        before, now = use.before.ends, use.now.ends
        if before is None or now is None or before.dialed & now.dialed:
            return ""
        if not (half_open := len(before.dialing & now.dialing)):
            return ""
        open_ends = f"the dialing end of {plural(half_open, 'connection')} stayed open"
        return f"{open_ends}, and the other end of each connection of the time before was closed"

    def describe_no_use(self, links: Sequence[str], use: Iterable[LinkUse]) -> str:
        if any(each.before.ends is None for each in use):
            return "the connections of a proxy cannot be listed on this machine"
        return f"no connection on {', '.join(links)} was left half open"


def _ends(ending: ProbeEnding) -> Shown:
    def describe(through: ProbeResult, past: ProbeResult) -> str:
        if through.ending is not ending:
            return ""
        return f"a request through it {ending}, and one that bypasses it is answered"

    return describe


_silence = _ends(ProbeEnding.UNANSWERED)


def _is_answered(through: ProbeResult, past: ProbeResult) -> str:
    return "a request on a new connection through it is answered" if through.is_answered else ""


def _takes_at_least(least_s: float) -> Shown:
    def describe(through: ProbeResult, past: ProbeResult) -> str:
        if not through.is_answered or through.elapsed_s < least_s or past.elapsed_s >= least_s:
            return ""
        times = [f"{1000 * result.elapsed_s:.0f} ms" for result in (through, past)]
        return f"a request through it takes {times[0]}, and one that bypasses it {times[1]}"

    return describe


def _pieces(through: ProbeResult, past: ProbeResult) -> str:
    if not through.is_answered or through.pieces <= past.pieces:
        return ""
    pieces = [plural(result.pieces, "piece") for result in (through, past)]
    return f"a response through it comes in {pieces[0]}, and one that bypasses it in {pieces[1]}"


def _latency(effect: Latency) -> BytesProof:
    least_s = 2 * max(0, effect.latency_ms - effect.jitter_ms) / 1000 * SHARE
    return BytesProof("slow", _takes_at_least(least_s), least_s=least_s)


def _bandwidth(effect: Bandwidth) -> BytesProof:
    least_s = PADDING_S * SHARE
    padding_bytes = round(1000 * effect.kb_per_s * PADDING_S)
    return BytesProof("limited", _takes_at_least(least_s), least_s=least_s, padding_bytes=padding_bytes)


def _one_way(effect: DropOneWay) -> BytesProof:
    return BytesProof(
        "cut", _silence, streams=lambda link: ("responses" if link in effect.responses_of else "requests",)
    )


PROOFS: Mapping[type[LinkEffect], Callable[[Any], Proof]] = {
    Cut: lambda effect: BytesProof("cut", _silence),
    DropResponses: lambda effect: BytesProof("cut", _silence, streams=lambda link: ("responses",)),
    DropOneWay: _one_way,
    ResetConnections: lambda effect: ClosedProof("reset", _ends(ProbeEnding.RESET)),
    RefuseConnections: lambda effect: ClosedProof("refused", _ends(ProbeEnding.REFUSED)),
    HalfOpen: lambda effect: HalfOpenProof("half open", _is_answered),
    Latency: _latency,
    Bandwidth: _bandwidth,
    Slices: lambda effect: BytesProof("sliced", _pieces),
}
"""For each effect of `harness.network.TOXICS`: its proof."""


class Probes(Protocol):
    """The part of `ProxiedNetwork` that `ToxicEffect` uses."""

    def probe(self, link: str, extra_s: float = 0.0, padding_bytes: int = 0) -> ProbeResult:
        """Send a request through the link's proxy, and wait for `extra_s` more than usual."""
        ...

    def probe_past(self, link: str, padding_bytes: int = 0) -> ProbeResult:
        """Send a request that bypasses the link's proxy."""
        ...

    def connections(self, links: Iterable[str]) -> Mapping[str, int]:
        """Return the number of open connections on each link."""
        ...


def _in_words(result: ProbeResult) -> str:
    return f"{result.ending} after {1000 * result.elapsed_s:.0f} ms"


def link_states(network: Probes, meter: SocketMeter, links: Sequence[str]) -> dict[str, LinkState]:
    """Return the connections on each link now."""
    connections, ends = network.connections(links), meter.ends()
    return {link: LinkState(connections[link], None if ends is None else ends[link]) for link in links}


class ToxicEffect:
    """An `ActiveEffect` that toxics make.

    `before` has the connections directly before the effect began, and `meter` counts since then.
    """

    def __init__(
        self,
        network: Probes,
        links: Sequence[str],
        before: Mapping[str, LinkState],
        meter: SocketMeter,
        effect: LinkEffect,
    ) -> None:
        self._network = network
        self._links = links
        self._before = before
        self._meter = meter
        self._proof = PROOFS[type(effect)](effect)
        self._missing_proof = ""

    @property
    def links(self) -> Sequence[str]:
        """The names of the links."""
        return self._links

    @property
    def missing_proof(self) -> str:
        """Why the last call of `evidence` returned no proof. Empty if it returned one."""
        return self._missing_proof

    def evidence(self) -> str:
        """Return the proof, link by link. "" if no link has a proof, or if some link shows no effect.

        A link has a proof if another process met the effect on it, and if the broker answers a request that bypasses
        the proxy. A broker that is down would not answer.
        """
        proof, use = self._proof, self._use()
        met = {link: words for link in self._links if (words := proof.describe_use(link, use[link]))}
        if not met:
            self._missing_proof = proof.describe_no_use(self._links, use.values())
            return ""
        through, past = self._probe()
        shown = {link: proof.shown(through[link], past[link]) for link in self._links}
        answering = [link for link in self._links if past[link].is_answered]
        without = [
            link
            for link in self._links
            if not shown[link] and (link in answering or through[link].is_answered)
        ]
        proven = [link for link in met if link in answering and shown[link]]
        self._missing_proof = ""
        if without:
            link, state = without[0], proof.state
            self._missing_proof = (
                f"a request through {link} {_in_words(through[link])}, and one that bypasses it "
                f"{_in_words(past[link])}, so it was not {state}"
            )
        elif not proven:
            self._missing_proof = f"no broker answers behind {', '.join(met)}, with or without the proxy"
        return (
            "" if self._missing_proof else "; ".join(f"{link}: {met[link]}, {shown[link]}" for link in proven)
        )

    def _use(self) -> dict[str, LinkUse]:
        now, traffic = link_states(self._network, self._meter, self._links), self._meter.traffic()
        return {
            link: LinkUse(self._before[link], now[link], None if traffic is None else traffic[link])
            for link in self._links
        }

    def _probe(self) -> tuple[dict[str, ProbeResult], dict[str, ProbeResult]]:
        """Send a request through each link, and one past each, at the same time. The meter ignores both."""
        connections_before = self._meter.connections()
        padding = self._proof.padding_bytes
        with ThreadPoolExecutor(2 * len(self._links)) as pool:
            past = pool.map(lambda link: self._network.probe_past(link, padding), self._links)
            through = pool.map(
                lambda link: self._network.probe(link, 3 * self._proof.least_s, padding), self._links
            )
            results = (
                dict(zip(self._links, through, strict=True)),
                dict(zip(self._links, past, strict=True)),
            )
        self._meter.ignore_others(connections_before)
        return results
