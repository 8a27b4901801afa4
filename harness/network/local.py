"""Cuts between processes of one machine, through toxiproxy.

A cut puts `timeout=0` on both streams of every proxy concerned: connections stay open and silent,
new ones are taken and stay silent, and at the heal all of them are closed; what was in flight is
lost, never delivered late. (A lost SYN cannot be imitated: connecting always succeeds.)
"""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock

import psutil

from harness.clients.wire import answers
from harness.cluster import Cut
from harness.errors import FencepostError, UsageError
from harness.network.links import around, between, client_link, proxy_name
from harness.network.toxiproxy import Proxy, Toxiproxy, ToxiproxyError

PROBE_TIMEOUT_S = 0.4
_STREAMS = ("upstream", "downstream")
_log = logging.getLogger(__name__)


class LocalNetwork:
    """The proxies of one cluster, which one toxiproxy server (process `pid`) runs."""

    def __init__(
        self, toxiproxy: Toxiproxy, pid: int, brokers: Sequence[int], links: Mapping[str, Proxy]
    ) -> None:
        self._toxiproxy = toxiproxy
        self._pid = pid
        self._brokers = tuple(brokers)
        self._links = links
        self._cuts: Counter[str] = Counter()  # how many cuts are on a link
        self._lock = Lock()

    @property
    def alive(self) -> bool:
        """Whether the server of the proxies still runs."""
        try:
            return psutil.Process(self._pid).status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    @property
    def links(self) -> Sequence[str]:
        """The names of all links."""
        return tuple(self._links)

    @contextmanager
    def cut_peers(self, one: int, other: int) -> Iterator[Cut]:
        """Cut two brokers from each other, both ways; what is in flight is lost."""
        with self._cut(between(one, other)) as cut:
            yield cut

    @contextmanager
    def isolate(self, broker: int) -> Iterator[Cut]:
        """Cut a broker from all its peers, both ways."""
        with self._cut(around(broker, self._brokers)) as cut:
            yield cut

    @contextmanager
    def cut_client(self, slot: str, broker: int) -> Iterator[Cut]:
        """Cut a client slot from a broker, both ways."""
        with self._cut([client_link(slot, broker)]) as cut:
            yield cut

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
        ports = Counter(
            connection.laddr.port
            for connection in psutil.Process(self._pid).net_connections("tcp")
            if connection.status == psutil.CONN_ESTABLISHED and connection.raddr
        )
        return {link: ports[self._links[link].listen_port] for link in links}

    def passes(self, link: str, timeout_s: float = PROBE_TIMEOUT_S) -> bool:
        """Whether a request through the link's proxy is answered."""
        return answers(self._links[link].listen_port, timeout_s)

    def reaches(self, link: str, timeout_s: float = PROBE_TIMEOUT_S) -> bool:
        """Whether the same request is answered when it goes round the proxy."""
        return answers(self._links[link].upstream_port, timeout_s)

    @contextmanager
    def _cut(self, links: Sequence[str]) -> Iterator[Cut]:
        for link in links:
            if link not in self._links:
                raise UsageError(f"there is no link {link} in this cluster")
        stood = self.connections(links)
        on: list[str] = []
        try:
            for link in links:
                on.append(link)
                self._break(link)
            yield LinkCut(self, tuple(links), stood)
        except BaseException:
            self._mend(on, quietly=True)
            raise
        self._mend(on)

    def _break(self, link: str) -> None:
        with self._lock:
            self._cuts[link] += 1
            if self._cuts[link] == 1:
                for stream in _STREAMS:
                    self._toxiproxy.add_toxic(proxy_name(link), f"cut-{stream}", "timeout", stream, timeout=0)

    def _mend(self, links: Sequence[str], *, quietly: bool = False) -> None:
        """End one cut on each link; a link that was healed meanwhile is left alone."""
        for link in links:
            with self._lock:
                if not self._cuts[link]:
                    continue
                self._cuts[link] -= 1
                if self._cuts[link]:
                    continue
                try:
                    for stream in _STREAMS:
                        self._toxiproxy.remove_toxic(proxy_name(link), f"cut-{stream}")
                except FencepostError as error:
                    if not quietly:
                        raise
                    _log.error("%s could not be healed: %s", link, error)


class LinkCut:
    """Some links that are cut, or were."""

    def __init__(self, network: LocalNetwork, links: Sequence[str], stood: Mapping[str, int]) -> None:
        self._network = network
        self._links = links
        self._stood = stood

    @property
    def links(self) -> Sequence[str]:
        """Their names."""
        return self._links

    def evidence(self) -> str:
        """How it is known that nothing passes, link by link.

        Empty if one of them leaks, or if none was in use: then nothing was cut.

        Ask while the cut is on. The same request is also sent round each proxy: that it is
        answered there shows that the cut is what silences it. (It is not if the broker is down.)
        """
        with ThreadPoolExecutor(2 * len(self._links)) as pool:
            around_it = list(pool.map(self._network.reaches, self._links))
            through_it = list(pool.map(self._network.passes, self._links))
        if any(through_it) or not any(self._stood[link] for link in self._links):
            return ""
        return "; ".join(
            f"{link}: {_connections(self._stood[link])} when it was cut, a request through it stays "
            f"unanswered, and round it is {'answered' if reached else 'unanswered too'}"
            for link, reached in zip(self._links, around_it, strict=True)
        )


def _connections(count: int) -> str:
    if count == 1:
        return "1 connection stood"
    return f"{count or 'no'} connections stood"
