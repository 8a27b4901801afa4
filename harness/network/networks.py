"""The networks of clusters: one whose links are proxies of one toxiproxy server, and one without links.

`harness.network` lists the toxics that make an effect, and `harness.network.proofs` proves it.

If an effect drops bytes, connections stay open, and new ones are accepted. The heal closes all of them. Bytes in flight
are lost, and are not delivered later. A lost SYN cannot be imitated, because toxiproxy always accepts a connection.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from threading import Lock
from typing import Protocol

from harness.common.errors import FaultFailed, FencepostError, UsageError
from harness.network import (
    DISABLED,
    ActiveEffect,
    ApplyRule,
    LinkEffect,
    LinkMeter,
    Toxic,
    proxy_name,
    toxics_of,
)
from harness.network.proofs import ToxicEffect, link_states
from harness.network.ruled import RuleTarget, apply_rule
from harness.network.toxiproxy import Proxy, Toxiproxy, ToxiproxyError
from harness.network.traffic import ProbeResult, ProxyPorts, ReceivedBytes, SocketMeter, probe
from harness.protocol.observed_clients import ObservedClients

_log = logging.getLogger(__name__)

PROBE_TIMEOUT_S = 0.4


class ProxyServer(Protocol):
    """The process or container in which toxiproxy runs."""

    @property
    def problem(self) -> str:
        """Which process has ended, and the last line of its log. Empty while it runs."""
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
        """Which process that carries the links has ended, and the last line of its log. Empty while all run."""
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
            raise ToxiproxyError(f"these links are not healed: {', '.join(unhealed)}")

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

    def probe(self, link: str, extra_s: float = 0.0, padding_bytes: int = 0) -> ProbeResult:
        """Send a request through the link's proxy, and wait for `extra_s` more than usual."""
        return probe(self._links[link].listen_port, self._probe_timeout_s + extra_s, padding_bytes)

    def probe_past(self, link: str, padding_bytes: int = 0) -> ProbeResult:
        """Send a request that bypasses the link's proxy."""
        return probe(self._links[link].upstream_port, self._probe_timeout_s, padding_bytes)

    def impose(self, links: Sequence[str], effect: LinkEffect) -> AbstractContextManager[ActiveEffect]:
        """Impose an effect on links for the length of a `with`. Two effects that share a toxic may overlap."""
        for link in links:
            if link not in self._links:
                raise UsageError(f"this cluster has no link {link}")
        if isinstance(effect, ApplyRule):
            return apply_rule(self._protocol_proxy, links, effect)
        return self._impose_toxics(tuple(links), effect)

    @contextmanager
    def _impose_toxics(self, links: Sequence[str], effect: LinkEffect) -> Iterator[ToxicEffect]:
        before = link_states(self, self.meter(links), links)
        added: list[tuple[str, Toxic]] = []
        try:
            for link in links:
                for toxic in toxics_of(effect, link):
                    added.append((link, toxic))
                    self._add(link, toxic)
                    if toxic.momentary:
                        self._remove([added.pop()])
            yield ToxicEffect(self, links, before, self.meter(links), effect)
        except BaseException:
            self._remove(added, quietly=True)
            raise
        self._remove(added)

    def _add(self, link: str, toxic: Toxic) -> None:
        with self._lock:
            self._uses[link, toxic] += 1
            if self._uses[link, toxic] > 1:
                return
            proxy = proxy_name(link)
            if toxic.kind == DISABLED:
                self._toxiproxy.enable(proxy, False)
            else:
                attributes = dict(toxic.attributes)
                self._toxiproxy.add_toxic(proxy, toxic.name, toxic.kind, toxic.stream, **attributes)

    def _remove(self, added: Sequence[tuple[str, Toxic]], *, quietly: bool = False) -> None:
        """Remove each toxic that no other effect uses. Skip toxics that `heal` has removed."""
        for link, toxic in added:
            with self._lock:
                if not self._uses[link, toxic]:
                    continue
                self._uses[link, toxic] -= 1
                if self._uses[link, toxic]:
                    continue
                proxy = proxy_name(link)
                try:
                    if toxic.kind == DISABLED:
                        self._toxiproxy.enable(proxy, True)
                    else:
                        self._toxiproxy.remove_toxic(proxy, toxic.name)
                except FencepostError as error:
                    if not quietly:
                        raise
                    _log.error("the effect on %s could not be removed: %s", link, error)


class NoNetwork:
    """A `Network` without links."""

    problem = ""
    links: Sequence[str] = ()

    def connections(self, links: Iterable[str]) -> Mapping[str, int]:
        """Return nothing, because there are no links."""
        return {}

    def meter(self, links: Iterable[str]) -> LinkMeter:
        """Return a meter that cannot count."""
        return SocketMeter(lambda: None, {})

    def observed_clients(self, links: Iterable[str]) -> ObservedClients | None:
        """Return None, because there are no links."""
        return None

    def impose(self, links: Sequence[str], effect: LinkEffect) -> AbstractContextManager[ActiveEffect]:
        """Raise `FaultFailed`. Schedules for such a cluster have no faults that need links."""
        raise FaultFailed("this cluster has no links that can be cut")

    def undecoded(self) -> Sequence[str]:
        """Return nothing, because there are no links."""
        return ()

    def heal(self) -> None:
        """Do nothing, because there are no effects."""
