"""Links that are proxies of one toxiproxy server: cuts between processes, or between containers.

A cut puts `timeout=0` on both streams of every proxy concerned, or on the way back alone where only answers are to
be lost: connections stay open and silent, new ones are taken and stay silent, and at the heal all of them are
closed; what was in flight is lost, never delivered late. (A lost SYN cannot be imitated: connecting always succeeds.)
"""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import product
from threading import Lock
from typing import Protocol

from harness.clients.wire import answers
from harness.errors import FencepostError, UsageError
from harness.network import LinkEffect
from harness.network.links import proxy_name
from harness.network.toxiproxy import Proxy, Toxiproxy, ToxiproxyError
from harness.telling.words import several

PROBE_TIMEOUT_S = 0.4
_STREAMS = {LinkEffect.SILENT: ("upstream", "downstream"), LinkEffect.ANSWERS_LOST: ("downstream",)}
_log = logging.getLogger(__name__)


class ProxyServer(Protocol):
    """Where toxiproxy runs."""

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        ...

    def established(self) -> Counter[int]:
        """How many connections stand on each port that it listens on, or dials from."""
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
        self._cuts: Counter[tuple[str, str]] = Counter()  # how many cuts are on a stream of a link
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
        """Remove every cut; idempotent. Raises `FaultFailed` if one stays."""
        with self._lock:
            self._cuts.clear()
            self._toxiproxy.reset()
            left = [proxy for proxy, toxics in self._toxiproxy.toxics().items() if toxics]
        if left:
            raise ToxiproxyError(f"these links are still cut after the heal: {', '.join(left)}")

    def connections(self, links: Iterable[str]) -> Mapping[str, int]:
        """How many connections stand on each link, from whoever dials it."""
        ports = self._server.established()
        return {link: ports[self._links[link].listen_port] for link in links}

    def passes(self, link: str, timeout_s: float | None = None) -> bool:
        """Whether a request through the link's proxy is answered."""
        return answers(self._links[link].listen_port, timeout_s or self._probe_timeout_s)

    def reaches(self, link: str) -> bool:
        """Whether the same request is answered when it goes round the proxy."""
        return answers(self._links[link].upstream_port, self._probe_timeout_s)

    @contextmanager
    def impose(self, links: Sequence[str], effect: LinkEffect) -> Iterator["LinkCut"]:
        """Silence links, both ways or only the way back; what is in flight there is lost."""
        streams = _STREAMS.get(effect)
        if streams is None:
            raise UsageError(f"these links cannot be made {effect.value}")
        for link in links:
            if link not in self._links:
                raise UsageError(f"there is no link {link} in this cluster")
        stood = self.connections(links)
        on: list[tuple[str, str]] = []
        try:
            for cut in product(links, streams):
                on.append(cut)
                self._break(*cut)
            yield LinkCut(self, tuple(links), stood)
        except BaseException:
            self._mend(on, quietly=True)
            raise
        self._mend(on)

    def _break(self, link: str, stream: str) -> None:
        with self._lock:
            self._cuts[link, stream] += 1
            if self._cuts[link, stream] == 1:
                self._toxiproxy.add_toxic(proxy_name(link), f"cut-{stream}", "timeout", stream, timeout=0)

    def _mend(self, cuts: Sequence[tuple[str, str]], *, quietly: bool = False) -> None:
        """End one cut on each stream; one that was healed meanwhile is left alone."""
        for link, stream in cuts:
            with self._lock:
                if not self._cuts[link, stream]:
                    continue
                self._cuts[link, stream] -= 1
                if self._cuts[link, stream]:
                    continue
                try:
                    self._toxiproxy.remove_toxic(proxy_name(link), f"cut-{stream}")
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
    """Some links that are cut, or were."""

    def __init__(self, network: Probes, links: Sequence[str], stood: Mapping[str, int]) -> None:
        self._network = network
        self._links = links
        self._stood = stood

    @property
    def links(self) -> Sequence[str]:
        """Their names."""
        return self._links

    def evidence(self) -> str:
        """How it is known that nothing passes, link by link.

        The same request is sent through each proxy and round it. Only a link on which a connection stood, or stands
        by now, that stays silent, and behind which the broker answers, proves that the cut is what silences it: a
        broker that is down answers nobody. Empty if no link proves it, or if one leaks.
        """
        stands = self._network.connections(self._links)  # before any of our own
        with ThreadPoolExecutor(2 * len(self._links)) as pool:
            around_it = dict(zip(self._links, pool.map(self._network.reaches, self._links), strict=True))
            through_it = list(pool.map(self._network.passes, self._links))
        if any(through_it):
            return ""
        used = [link for link in self._links if self._stood[link] or stands[link]]
        return "; ".join(
            f"{link}: {_in_use(self._stood[link], stands[link])}, a request through it stays unanswered, "
            "and a connection that bypasses it is answered"
            for link in used
            if around_it[link]
        )


def _in_use(stood: int, stands: int) -> str:
    """In words: how many connections stood on a link when it was cut, or have been made since."""
    if stood:
        return f"{several(stood, 'connection')} stood when it was cut"
    return f"{several(stands, 'connection')} stood, made after it was cut"
