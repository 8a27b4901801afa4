"""The processes that carry the links of a cluster: the toxiproxy server and the protocol proxy."""

import logging
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

import psutil
from msgspec import structs

from harness.cluster.started_node import PortTaken, diagnosis, port_taken
from harness.common.errors import EnvironmentFailure, FaultFailed, StartFailed
from harness.common.waiting import wait_for
from harness.network.toxiproxy import HOST, Proxy, Toxiproxy, ToxiproxyError
from harness.network.traffic import ReceivedBytes, read_received_bytes
from harness.processes.child import Child
from harness.processes.messages import decode, encode
from harness.processes.spawn import Supervisor
from harness.protocol.observed_clients import ObservedClients
from harness.protocol.proxy import LISTENING, ProxyLink, ProxySpec
from harness.protocol.rules import ProtocolRule
from harness.protocol.state import ProxyRequest, ReleaseOrder, RuleStatus, UndecodedMessages
from harness.record.protocol_journal import JOURNAL

_log = logging.getLogger(__name__)

TOXIPROXY_TIMEOUT_S = 15.0
PROGRAM = "harness.protocol.proxy"
START_TIMEOUT_S = 30.0
REPLY_TIMEOUT_S = 5.0
Reply = TypeVar("Reply", RuleStatus, ObservedClients, UndecodedMessages)


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


class ProtocolProxy:
    """The process. Threads may share it. Call `start`, then `end`, which may be called at any time."""

    def __init__(
        self,
        jar: Path,
        folder: Path,
        links: Sequence[ProxyLink],
        client_config: Path | None = None,
        hosts: Sequence[str] = (HOST,),
    ) -> None:
        self._log = folder / "protocol-proxy.log"
        self.journal = folder / JOURNAL
        self._spec = ProxySpec(jar, self.journal, tuple(links), client_config, hosts=tuple(hosts))
        self._child: Child | None = None
        self._control: socket.socket | None = None
        self._lock = threading.Lock()
        self._unread = b""
        self._number = 0  # of the last message

    def start(self, supervisor: Supervisor) -> None:
        """Start it, and wait until it listens on every port. Raises `StartFailed`."""
        self._log.parent.mkdir(parents=True, exist_ok=True)
        own, other = socket.socketpair()
        own.settimeout(REPLY_TIMEOUT_S)
        with other:
            spec = structs.replace(self._spec, control=other.fileno())
            command = [sys.executable, "-P", "-m", PROGRAM, encode(spec).decode()]
            child = supervisor.spawn(
                command, name="protocol-proxy", log_file=self._log, pass_fds=[other.fileno()]
            )
        self._child, self._control = child, own

        def listens() -> bool:
            text = self._log.read_text(errors="replace", encoding="utf-8")
            if child.poll() is not None:
                raise StartFailed(
                    f"the protocol proxy did not start: {diagnosis(text)}; its log is {self._log}"
                )
            return LISTENING in text

        wait_for(listens, "the protocol proxy to listen", START_TIMEOUT_S, every_s=0.02)

    @property
    def problem(self) -> str:
        """How the process ended, and the last line of its log. Empty while it runs."""
        return describe_end(self._child) if self._child is not None else ""

    def add(self, rule: ProtocolRule) -> RuleStatus:
        """Put a rule in force. Raises `FaultFailed`."""
        return self._ask_about_rule(ProxyRequest(add=rule))

    def status(self, rule: str) -> RuleStatus:
        """Return what a rule has done so far. Raises `FaultFailed`."""
        return self._ask_about_rule(ProxyRequest(status=rule))

    def release(self, order: ReleaseOrder) -> RuleStatus:
        """Deliver a request that a rule keeps. Do nothing if it was delivered. Raises `FaultFailed`."""
        return self._ask_about_rule(ProxyRequest(release=order))

    def remove(self, rule: str) -> RuleStatus:
        """Deliver the messages that a rule keeps, and forget the rule once all are answered. Raises `FaultFailed`.

        Call it again while the reply has messages that are still kept.
        """
        return self._ask_about_rule(ProxyRequest(remove=rule))

    def observed_clients(self, links: Iterable[str]) -> ObservedClients | None:
        """Return what the requests on these links say about their clients. Raises `FaultFailed`.

        None if none of these links passes through the proxy.
        """
        own_links = {link.name for link in self._spec.links}
        decoded = tuple(link for link in links if link in own_links)
        return self._ask(ProxyRequest(clients=decoded), ObservedClients) if decoded else None

    def last_line(self) -> str:
        """Return the last line of its log that says something is wrong, or else the last line."""
        return diagnosis(self._log.read_text(errors="replace", encoding="utf-8"))

    def undecoded(self) -> tuple[str, ...]:
        """Return which messages passed unchanged because they cannot be decoded, in words. Raises `FaultFailed`."""
        return self._ask(ProxyRequest(undecoded=True), UndecodedMessages).words

    def end(self) -> None:
        """Kill the process. Raises `EnvironmentFailure` if it does not end."""
        if self._control is not None:
            self._control.close()
        if self._child is not None:
            self._child.kill()

    def _ask_about_rule(self, request: ProxyRequest) -> RuleStatus:
        status = self._ask(request, RuleStatus)
        if status.error:
            raise FaultFailed(f"the protocol proxy refused a message: {status.error}")
        return status

    def _ask(self, request: ProxyRequest, kind: type[Reply]) -> Reply:
        if self._control is None:
            raise FaultFailed("the protocol proxy does not run")
        with self._lock:
            self._number += 1
            try:
                self._control.sendall(encode(structs.replace(request, number=self._number)) + b"\n")
                number, reply = 0, b""
                while number != self._number:  # the reply to an earlier message may come too late
                    head, _, reply = self._read_line().partition(b" ")
                    number = int(head)
            except OSError as error:
                raise FaultFailed(f"the protocol proxy does not answer: {self.problem or error}") from error
        return decode(kind, reply)

    def _read_line(self) -> bytes:
        assert self._control is not None
        while b"\n" not in self._unread:
            if not (part := self._control.recv(1 << 16)):
                raise ConnectionError("it has closed its control socket")
            self._unread += part
        line, _, self._unread = self._unread.partition(b"\n")
        return line
