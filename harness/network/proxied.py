"""A network whose links are proxies of one toxiproxy server.

`harness.network.toxics` lists the toxics that make an effect. An effect drops the bytes of both streams of a proxy, or
only of the responses. Connections stay open, and new ones are accepted. The heal closes all of them. Bytes in flight
are lost, and are not delivered later. A lost SYN cannot be imitated, because toxiproxy always accepts a connection.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from itertools import product
from threading import Lock
from typing import Protocol

from harness.common.errors import FencepostError, UsageError
from harness.network import ActiveEffect, ApplyRule, LinkEffect, LinkTraffic
from harness.network.links import proxy_name
from harness.network.ruled import RuleTarget, apply_rule
from harness.network.toxics import Toxic, toxics_of
from harness.network.toxiproxy import Proxy, Toxiproxy, ToxiproxyError
from harness.network.traffic import ProxyPorts, ReceivedBytes, SocketMeter
from harness.protocol.observed_clients import ObservedClients
from harness.results.wording import plural
from harness.wire.protocol import is_answering

PROBE_TIMEOUT_S = 0.4
_PROBE_RESULTS = "a request through it stays unanswered, and a connection that bypasses it is answered"
_log = logging.getLogger(__name__)


class ProxyServer(Protocol):
    """The process or container in which toxiproxy runs."""

    @property
    def problem(self) -> str:
        """Which process has ended, and its last words. Empty while it runs."""
        ...

    def connections_by_port(self) -> Counter[int]:
        """Return the number of connections on each local port, both where it listens and from where it dials."""
        ...

    def received_bytes(self) -> ReceivedBytes | None:
        """Return the bytes that each connection has received. Connections of other processes may be included.

        None if they cannot be counted.
        """
        ...


class ProxiedNetwork:
    """The `Network` of a cluster whose links are proxies of one toxiproxy server."""

    def __init__(
        self,
        toxiproxy: Toxiproxy,
        server: ProxyServer,
        links: Mapping[str, Proxy],
        probe_timeout_s: float = PROBE_TIMEOUT_S,
        protocol_proxy: RuleTarget | None = None,
    ) -> None:
        self._toxiproxy = toxiproxy
        self._server = server
        self._links = links
        self._probe_timeout_s = probe_timeout_s
        self._protocol_proxy = protocol_proxy
        self._uses: Counter[tuple[str, Toxic]] = Counter()  # by link and toxic: how many effects use it
        self._lock = Lock()

    @property
    def problem(self) -> str:
        """Which process that carries the links has ended, and its last words. Empty while all run."""
        return self._server.problem or (self._protocol_proxy.problem if self._protocol_proxy else "")

    @property
    def links(self) -> Sequence[str]:
        """The names of all links."""
        return tuple(self._links)

    def undecoded(self) -> Sequence[str]:
        """Return which of Kafka's messages passed unchanged because the protocol proxy cannot decode them, in words.

        Raises `FaultFailed`.
        """
        return self._protocol_proxy.undecoded() if self._protocol_proxy else ()

    def heal(self) -> None:
        """Remove every effect. It does nothing if there is none. Raises `FaultFailed` if a toxic remains."""
        with self._lock:
            self._uses.clear()
            self._toxiproxy.reset()
            unhealed = [proxy for proxy, toxics in self._toxiproxy.toxics().items() if toxics]
        if unhealed:
            raise ToxiproxyError(f"these links still have a toxic after the heal: {', '.join(unhealed)}")

    def connections(self, links: Iterable[str]) -> Mapping[str, int]:
        """Return the number of open connections on each link, including the harness's own."""
        ports = self._server.connections_by_port()
        return {link: ports[self._links[link].listen_port] for link in links}

    def meter(self, links: Iterable[str]) -> SocketMeter:
        """Return a meter that counts the bytes on these links from now on."""
        ports = {
            link: ProxyPorts(self._links[link].listen_port, self._links[link].upstream_port) for link in links
        }
        return SocketMeter(self._server.received_bytes, ports)

    def observed_clients(self, links: Iterable[str]) -> ObservedClients | None:
        """Return what the protocol proxy knows about the clients on these links. None if it is on none of them."""
        return None if self._protocol_proxy is None else self._protocol_proxy.observed_clients(links)

    def passes(self, link: str, timeout_s: float | None = None) -> bool:
        """Return whether a request through the link's proxy is answered."""
        return is_answering(self._links[link].listen_port, timeout_s or self._probe_timeout_s)

    def reaches(self, link: str) -> bool:
        """Return whether a request that bypasses the link's proxy is answered."""
        return is_answering(self._links[link].upstream_port, self._probe_timeout_s)

    def impose(self, links: Sequence[str], effect: LinkEffect) -> AbstractContextManager[ActiveEffect]:
        """Impose an effect on links for the length of a `with`. Two effects that share a toxic may overlap."""
        for link in links:
            if link not in self._links:
                raise UsageError(f"this cluster has no link {link}")
        if isinstance(effect, ApplyRule):
            return apply_rule(self._protocol_proxy, links, effect)
        return self._impose_toxics(links, toxics_of(effect))

    @contextmanager
    def _impose_toxics(self, links: Sequence[str], toxics: Sequence[Toxic]) -> Iterator["LinkCut"]:
        connections_before = self.connections(links)
        added: list[tuple[str, Toxic]] = []
        try:
            for link_toxic in product(links, toxics):
                added.append(link_toxic)
                self._add(*link_toxic)
            yield LinkCut(self, tuple(links), connections_before, self.meter(links), toxics)
        except BaseException:
            self._remove(added, quietly=True)
            raise
        self._remove(added)

    def _add(self, link: str, toxic: Toxic) -> None:
        with self._lock:
            self._uses[link, toxic] += 1
            if self._uses[link, toxic] == 1:
                self._toxiproxy.add_toxic(
                    proxy_name(link), toxic.name, toxic.kind, toxic.stream, **dict(toxic.attributes)
                )

    def _remove(self, added: Sequence[tuple[str, Toxic]], *, quietly: bool = False) -> None:
        """Remove each toxic that no other effect uses. Skip toxics that `heal` has removed."""
        for link, toxic in added:
            with self._lock:
                if not self._uses[link, toxic]:
                    continue
                self._uses[link, toxic] -= 1
                if self._uses[link, toxic]:
                    continue
                try:
                    self._toxiproxy.remove_toxic(proxy_name(link), toxic.name)
                except FencepostError as error:
                    if not quietly:
                        raise
                    _log.error("the effect on %s could not be removed: %s", link, error)


class Probes(Protocol):
    """The part of `ProxiedNetwork` that `LinkCut` uses."""

    def passes(self, link: str) -> bool:
        """Return whether a request through the link's proxy is answered."""
        ...

    def reaches(self, link: str) -> bool:
        """Return whether a request that bypasses the link's proxy is answered."""
        ...

    def connections(self, links: Iterable[str]) -> Mapping[str, int]:
        """Return the number of open connections on each link."""
        ...


class LinkCut:
    """An `ActiveEffect` that drops the bytes of at least one stream of some links."""

    def __init__(
        self,
        network: Probes,
        links: Sequence[str],
        connections_before: Mapping[str, int],
        meter: SocketMeter,
        toxics: Sequence[Toxic],
    ) -> None:
        self._network = network
        self._links = links
        self._connections_before = connections_before
        self._meter = meter
        self._only_responses = all(toxic.stream == "downstream" for toxic in toxics)
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
        """Return the proof that no bytes pass, link by link. "" if no link has a proof, or if bytes pass on some link.

        A link has a proof if all three hold:

        - A process other than the harness has sent bytes into it since the cut. If bytes cannot be counted, a
          connection that is or was on the link is enough.
        - A request through its proxy gets no answer.
        - A request that bypasses the proxy is answered. A broker that is down would not answer.
        """
        connections, traffic = self._network.connections(self._links), self._meter.traffic()
        use_by_link = {
            link: use for link in self._links if (use := self._describe_use(link, connections[link], traffic))
        }
        if not use_by_link:
            self._missing_proof = self._describe_no_use(traffic)
            return ""
        connections_before_probe = self._meter.connections()
        with ThreadPoolExecutor(2 * len(self._links)) as pool:
            bypassing = dict(zip(self._links, pool.map(self._network.reaches, self._links), strict=True))
            through_proxy = dict(zip(self._links, pool.map(self._network.passes, self._links), strict=True))
        self._meter.ignore_others(connections_before_probe)
        leaks = [link for link in self._links if through_proxy[link]]
        proven = {link: use for link, use in use_by_link.items() if bypassing[link]}
        self._missing_proof = ""
        if leaks:
            self._missing_proof = f"a request through {', '.join(leaks)} was answered, so it was not cut"
        elif not proven:
            self._missing_proof = (
                f"no broker answers behind {', '.join(use_by_link)}, with or without the proxy"
            )
        return (
            ""
            if self._missing_proof
            else "; ".join(f"{link}: {use}, {_PROBE_RESULTS}" for link, use in proven.items())
        )

    def _describe_use(self, link: str, connections: int, traffic: Mapping[str, LinkTraffic] | None) -> str:
        """Describe how a link was used. "" if it was not used."""
        if traffic is None:
            use = _describe_connections(self._connections_before[link], connections)
            return use and f"{use} (bytes on it cannot be counted here)"
        requests, responses = traffic[link]
        dropped = responses if self._only_responses else requests + responses
        if not dropped:
            return ""
        return f"{requests} bytes of requests and {responses} bytes of responses were sent into it while it was cut"

    def _describe_no_use(self, traffic: Mapping[str, LinkTraffic] | None) -> str:
        if traffic is None:
            return f"no connection was on {', '.join(self._links)} while it was cut"
        kind = "responses" if self._only_responses else "bytes"
        return f"no {kind} were sent into {', '.join(self._links)} while it was cut"


def _describe_connections(before: int, now: int) -> str:
    """Describe the connections that a link had before the cut. If it had none, describe those opened later.

    "" if there were none at all.
    """
    if before:
        return f"{plural(before, 'connection')} existed when it was cut"
    return f"{plural(now, 'connection')} opened after it was cut" if now else ""
