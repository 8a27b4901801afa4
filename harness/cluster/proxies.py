"""The toxiproxy server that carries the links of a cluster."""

import logging
from collections import Counter
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Protocol

import psutil

from harness.cluster.start_diagnosis import diagnosis, port_taken
from harness.cluster.started_node import PortTaken
from harness.common.errors import EnvironmentFailure, StartFailed
from harness.common.waiting import wait_for
from harness.network.toxiproxy import HOST, Proxy, Toxiproxy, ToxiproxyError
from harness.network.traffic import ReceivedBytes, read_received_bytes
from harness.processes.child import Child
from harness.processes.spawn import Supervisor

TOXIPROXY_TIMEOUT_S = 15.0
_log = logging.getLogger(__name__)


class ProxyProcess(Protocol):
    """A proxy that is a process of the run."""

    def end(self) -> None:
        """Kill the process. Raises `EnvironmentFailure` if it does not end."""
        ...


def describe_end(proxy: Child) -> str:
    """Return how a process ended, and the line of its log that says why. Empty while it runs."""
    if proxy.poll() is None:
        return ""
    proxy.await_log()
    log = proxy.log_file.read_text(errors="replace", encoding="utf-8") if proxy.log_file else ""
    return f"{proxy.name}, {proxy.ending()}; the last line of its log: {diagnosis(log)}"


def end_proxies(*proxies: ProxyProcess | None) -> None:
    """End these processes. Failures are logged."""
    for proxy in proxies:
        try:
            if proxy is not None:
                proxy.end()
        except EnvironmentFailure as error:
            _log.error("a proxy of the run could not be ended: %s", error)


def create_proxies(port: int, proxies: Collection[Proxy], check: Callable[[], None]) -> Toxiproxy:
    """Wait until the toxiproxy server on a port answers, then create its proxies.

    `check` must raise if the server has ended. Raises `PortTaken` or `StartFailed`.
    """
    api = Toxiproxy(port)

    def answers() -> bool:
        check()
        try:
            return bool(api.version())
        except ToxiproxyError:
            return False

    wait_for(answers, "toxiproxy to answer", TOXIPROXY_TIMEOUT_S, every_s=0.01)
    try:
        api.populate(list(proxies))
    except ToxiproxyError as error:
        kind = PortTaken if port_taken(str(error)) else StartFailed
        raise kind(f"the proxies could not be created: {error}") from error
    return api


class ToxiproxyServer:
    """Toxiproxy as a process of the run. `end` may be called at any time."""

    def __init__(self, binary: Path, port: int, folder: Path) -> None:
        self._binary = binary
        self._port = port
        self._log = folder / "toxiproxy.log"
        self.child: Child | None = None

    def start(self, supervisor: Supervisor, proxies: Collection[Proxy]) -> Toxiproxy:
        """Start it and create these proxies. Raises `PortTaken` or `StartFailed`."""
        self._log.parent.mkdir(parents=True, exist_ok=True)
        command: list[str | Path] = [self._binary, "-host", HOST, "-port", str(self._port)]
        child = self.child = supervisor.spawn(command, name="toxiproxy", log_file=self._log)

        def check() -> None:
            if child.poll() is not None:
                output = self._log.read_text(errors="replace", encoding="utf-8")
                kind = PortTaken if port_taken(output) else StartFailed
                raise kind(f"toxiproxy did not start: {diagnosis(output)}; its log is {self._log}")

        return create_proxies(self._port, proxies, check)

    @property
    def problem(self) -> str:
        """How the process ended, and the last line of its log. Empty while it runs."""
        return describe_end(self.child) if self.child is not None else ""

    def connections_by_port(self) -> Counter[int]:
        """Return the number of connections on each local port, both where it listens and from where it dials."""
        if self.child is None:
            return Counter()
        return Counter(
            connection.laddr.port
            for connection in psutil.Process(self.child.pid).net_connections("tcp")
            if connection.status == psutil.CONN_ESTABLISHED and connection.raddr
        )

    def received_bytes(self) -> ReceivedBytes | None:
        """Return the bytes that each local connection has received. None if the platform cannot count them."""
        return read_received_bytes()

    def end(self) -> None:
        """Kill the process. Raises `EnvironmentFailure` if it does not end."""
        if self.child is not None:
            self.child.kill()
