"""Links that are proxies of one toxiproxy server: cuts between processes, or between containers.

`harness.network.toxics` says which toxics make an effect. A cut silences both streams of a proxy, or the responses
alone: connections stay open and silent, new ones are accepted and stay silent, and the heal closes all of them.
Bytes in flight are lost, never delivered late. (A lost SYN cannot be imitated: connecting always succeeds.)
"""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import product
from threading import Lock
from typing import Protocol

from harness.common.errors import FencepostError, UsageError
from harness.network import LinkEffect, LinkTraffic
from harness.network.links import proxy_name
from harness.network.toxics import Toxic, toxics_of
from harness.network.toxiproxy import Proxy, Toxiproxy, ToxiproxyError
from harness.network.traffic import ProxyPorts, ReceivedBytes, SocketMeter
from harness.results.wording import plural
from harness.wire.protocol import is_answering

PROBE_TIMEOUT_S = 0.4
_SILENT = "a request through it stays unanswered, and a connection that bypasses it is answered"
_log = logging.getLogger(__name__)


class ProxyServer(Protocol):
    """Where toxiproxy runs."""

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        ...

    def connections_by_port(self) -> Counter[int]:
        """How many connections stand on each port that it listens on, or dials from."""
        ...

    def received_bytes(self) -> ReceivedBytes | None:
        """How many bytes each of its connections has received, and maybe others. None: that is not known."""
        ...


class ProxiedNetwork:
    """The proxies of one cluster, all of one toxiproxy server."""

    def __init__(
        self,
        toxiproxy: Toxiproxy,
        server: ProxyServer,
        links: Mapping[str, Proxy],
        probe_timeout_s: float = PROBE_TIMEOUT_S,
    ) -> None:
        self._toxiproxy = toxiproxy
        self._server = server
        self._links = links
        self._probe_timeout_s = probe_timeout_s
        self._on: Counter[tuple[str, Toxic]] = Counter()  # how many effects have put a toxic on a link
        self._lock = Lock()

    @property
    def alive(self) -> bool:
        """Whether the server of the proxies still runs."""
        return self._server.alive

    @property
    def links(self) -> Sequence[str]:
        """The names of all links."""
        return tuple(self._links)

    def heal(self) -> None:
        """Remove every effect; idempotent. Raises `FaultFailed` if one stays."""
        with self._lock:
            self._on.clear()
            self._toxiproxy.reset()
            left = [proxy for proxy, toxics in self._toxiproxy.toxics().items() if toxics]
        if left:
            raise ToxiproxyError(f"these links still have a toxic after the heal: {', '.join(left)}")

    def connections(self, links: Iterable[str]) -> Mapping[str, int]:
        """How many connections stand on each link, from whoever dials it."""
        ports = self._server.connections_by_port()
        return {link: ports[self._links[link].listen_port] for link in links}

    def meter(self, links: Iterable[str]) -> SocketMeter:
        """Begin to count the bytes that are sent over these links."""
        ports = {
            link: ProxyPorts(self._links[link].listen_port, self._links[link].upstream_port) for link in links
        }
        return SocketMeter(self._server.received_bytes, ports)

    def passes(self, link: str, timeout_s: float | None = None) -> bool:
        """Whether a request through the link's proxy is answered."""
        return is_answering(self._links[link].listen_port, timeout_s or self._probe_timeout_s)

    def reaches(self, link: str) -> bool:
        """Whether the same request is answered when it goes round the proxy."""
        return is_answering(self._links[link].upstream_port, self._probe_timeout_s)

    @contextmanager
    def impose(self, links: Sequence[str], effect: LinkEffect) -> Iterator["LinkCut"]:
        """Put an effect on links for the length of a `with`. Two effects that share a toxic may overlap."""
        toxics = toxics_of(effect)
        for link in links:
            if link not in self._links:
                raise UsageError(f"there is no link {link} in this cluster")
        stood = self.connections(links)
        on: list[tuple[str, Toxic]] = []
        try:
            for each in product(links, toxics):
                on.append(each)
                self._add(*each)
            yield LinkCut(self, tuple(links), stood, self.meter(links), toxics)
        except BaseException:
            self._remove(on, quietly=True)
            raise
        self._remove(on)

    def _add(self, link: str, toxic: Toxic) -> None:
        with self._lock:
            self._on[link, toxic] += 1
            if self._on[link, toxic] == 1:
                self._toxiproxy.add_toxic(
                    proxy_name(link), toxic.name, toxic.kind, toxic.stream, **dict(toxic.attributes)
                )

    def _remove(self, added: Sequence[tuple[str, Toxic]], *, quietly: bool = False) -> None:
        """Remove each toxic that no other effect has put there too. One that `heal` has removed is left alone."""
        for link, toxic in added:
            with self._lock:
                if not self._on[link, toxic]:
                    continue
                self._on[link, toxic] -= 1
                if self._on[link, toxic]:
                    continue
                try:
                    self._toxiproxy.remove_toxic(proxy_name(link), toxic.name)
                except FencepostError as error:
                    if not quietly:
                        raise
                    _log.error("%s could not be healed: %s", link, error)


class Probes(Protocol):
    """What a cut asks the links by."""

    def passes(self, link: str) -> bool:
        """Whether a request through the link's proxy is answered."""
        ...

    def reaches(self, link: str) -> bool:
        """Whether the same request is answered when it goes round the proxy."""
        ...

    def connections(self, links: Iterable[str]) -> Mapping[str, int]:
        """How many connections stand on each link."""
        ...


class LinkCut:
    """Some links on which a stream is silent, or was."""

    def __init__(
        self,
        network: Probes,
        links: Sequence[str],
        stood: Mapping[str, int],
        meter: SocketMeter,
        toxics: Sequence[Toxic],
    ) -> None:
        self._network = network
        self._links = links
        self._stood = stood
        self._meter = meter
        self._answers_alone = all(toxic.stream == "downstream" for toxic in toxics)
        self._lacks = ""

    @property
    def links(self) -> Sequence[str]:
        """Their names."""
        return self._links

    @property
    def missing_proof(self) -> str:
        """Why the last `evidence` was empty; empty if it was not."""
        return self._lacks

    def evidence(self) -> str:
        """How it is known that nothing passes, link by link.

        A link proves it if others than the harness have sent bytes into it since it was cut, if a request through its
        proxy stays unanswered, and if the same request is answered when it goes round the proxy: a broker that is
        down answers nobody. Where bytes cannot be counted, a connection that is or was on the link must do instead.
        Empty if no link proves it, or if one leaks.
        """
        stands, carried = self._network.connections(self._links), self._meter.traffic()
        used = {link: words for link in self._links if (words := self._use(link, stands[link], carried))}
        if not used:
            self._lacks = self._unused(carried)
            return ""
        others = self._meter.connections()
        with ThreadPoolExecutor(2 * len(self._links)) as pool:
            around_it = dict(zip(self._links, pool.map(self._network.reaches, self._links), strict=True))
            through_it = dict(zip(self._links, pool.map(self._network.passes, self._links), strict=True))
        self._meter.ignore_others(others)
        leaks = [link for link in self._links if through_it[link]]
        proven = {link: words for link, words in used.items() if around_it[link]}
        self._lacks = ""
        if leaks:
            self._lacks = f"a request through {', '.join(leaks)} was answered, so it was not cut"
        elif not proven:
            self._lacks = f"nobody answers behind {', '.join(used)}, cut or not"
        return (
            "" if self._lacks else "; ".join(f"{link}: {words}, {_SILENT}" for link, words in proven.items())
        )

    def _use(self, link: str, stands: int, carried: Mapping[str, LinkTraffic] | None) -> str:
        """In words, how it is known that a link is in use; empty if it is not."""
        if carried is None:
            words = _in_use(self._stood[link], stands)
            return words and f"{words} (bytes on it cannot be counted here)"
        requests, answers = carried[link]
        lost = answers if self._answers_alone else requests + answers
        if not lost:
            return ""
        return (
            f"{requests} bytes of requests and {answers} bytes of answers were sent into it while it was cut"
        )

    def _unused(self, carried: Mapping[str, LinkTraffic] | None) -> str:
        """In words, that no link is in use."""
        if carried is None:
            return f"no connection was on {', '.join(self._links)} while it was cut"
        kind = "answers" if self._answers_alone else "bytes"
        return f"no {kind} were sent into {', '.join(self._links)} while it was cut"


def _in_use(stood: int, stands: int) -> str:
    """In words: how many connections stood on a link when it was cut, or have been made since; empty: none."""
    if stood:
        return f"{plural(stood, 'connection')} stood when it was cut"
    return f"{plural(stands, 'connection')} stood, made after it was cut" if stands else ""
