"""The protocol proxy as a process of the run, and the messages to it."""

import socket
import sys
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from msgspec import structs

from harness.cluster.proxies import describe_end
from harness.cluster.start_diagnosis import diagnosis
from harness.common.errors import FaultFailed, StartFailed
from harness.common.waiting import wait_for
from harness.processes.child import Child
from harness.processes.messages import decode, encode
from harness.processes.spawn import Supervisor
from harness.protocol.addresses import HOST
from harness.protocol.observed_clients import ObservedClients
from harness.protocol.proxy import LISTENING, ProxyLink, ProxySpec
from harness.protocol.rules import ProtocolRule
from harness.protocol.state import ProxyRequest, ReleaseOrder, RuleStatus, UndecodedMessages
from harness.record.protocol_journal import JOURNAL

PROGRAM = "harness.protocol.proxy"
START_TIMEOUT_S = 30.0
REPLY_TIMEOUT_S = 5.0
Reply = TypeVar("Reply", RuleStatus, ObservedClients, UndecodedMessages)


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
