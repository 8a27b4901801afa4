"""Count the bytes that were sent over each link, as evidence that the link was in use during a fault.

Linux counts the bytes that each TCP socket has received, and any user may read the counts (sock_diag(7);
`tcpi_bytes_received` of TCP_INFO, since Linux 4.1). The sockets of a proxy show both directions of its link. Requests
are received on the proxy's listening port. Responses are received on the connection that the proxy has dialed.
Toxiproxy's own metrics are not used, because they count a connection only after it closes.
"""

import socket
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from harness.network import LinkTraffic

_SOCK_DIAG = 4  # the netlink family NETLINK_SOCK_DIAG
_BY_FAMILY = 20  # the request SOCK_DIAG_BY_FAMILY
_DUMP = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
_DONE, _ERROR = 3, 2  # the types of messages that end a response
_INFO = 2  # the attribute INET_DIAG_INFO, which holds a `struct tcp_info`
_RECEIVED_AT = 128  # the position of `tcpi_bytes_received` in `struct tcp_info`
_SOURCE_AT = 8  # the position of the source address in `struct inet_diag_msg`
_LOOPBACK = 127  # the first byte of a loopback address
_MESSAGE_BYTES = 72  # the size of `struct inet_diag_msg`; the attributes follow it
_OPEN = (1, 4, 5)  # ESTABLISHED, FIN_WAIT1, FIN_WAIT2: the other end may still send
_CLOSED = (8, 9, 11)  # CLOSE_WAIT, LAST_ACK, CLOSING: a FIN was received, which the kernel counts as a byte
_TIMEOUT_S = 2.0


class LocalConnection(NamedTuple):
    """One end of a TCP connection within this machine."""

    local_port: int
    remote_port: int


class LinkEnds(NamedTuple):
    """The proxy's ends of the connections on a link."""

    dialing: frozenset[LocalConnection]  # their other end is the end that dials
    dialed: frozenset[LocalConnection]


class ProxyPorts(NamedTuple):
    """The port on which a proxy listens, and the port that it dials."""

    listen_port: int
    upstream_port: int


ReceivedBytes = Mapping[LocalConnection, int]
"""For each end of a connection: the bytes that it has received."""


class SocketMeter:
    """Counts the bytes on links from the moment of its creation."""

    def __init__(
        self, read_received_bytes: Callable[[], ReceivedBytes | None], links: Mapping[str, ProxyPorts]
    ) -> None:
        self._read_received_bytes = read_received_bytes
        self._links = links
        self._before = read_received_bytes() or {}
        self._ignored: frozenset[LocalConnection] = frozenset()

    def traffic(self) -> Mapping[str, LinkTraffic] | None:
        """Return the traffic on each link since the creation. None if it cannot be counted."""
        now = self._read_received_bytes()
        if now is None:
            return None
        new = {connection: self._count_new(connection, count) for connection, count in now.items()}
        return {
            link: LinkTraffic(*(sum(new[connection] for connection in side) for side in ends))
            for link, ends in self._ends_in(now).items()
        }

    def ends(self) -> Mapping[str, LinkEnds] | None:
        """Return the open ends of connections on each link. None if they cannot be listed."""
        now = self._read_received_bytes()
        return None if now is None else self._ends_in(now)

    def _ends_in(self, connections: Iterable[LocalConnection]) -> dict[str, LinkEnds]:
        counted = frozenset(connections) - self._ignored
        return {
            link: LinkEnds(
                frozenset(each for each in counted if each.local_port == ports.listen_port),
                frozenset(each for each in counted if each.remote_port == ports.upstream_port),
            )
            for link, ports in self._links.items()
        }

    def _count_new(self, connection: LocalConnection, count: int) -> int:
        before = self._before.get(connection, 0)
        # A smaller count is that of a new connection from the same port.
        return count - before if count >= before else count

    def connections(self) -> frozenset[LocalConnection]:
        """Return the connections that exist now."""
        return frozenset(self._read_received_bytes() or ())

    def ignore_others(self, counted: Iterable[LocalConnection]) -> None:
        """Ignore connections that exist now and are not in `counted`, because the harness made them."""
        self._ignored |= self.connections() - frozenset(counted)


def read_received_bytes() -> ReceivedBytes | None:
    """Return the bytes that each end of each connection within this machine has received.

    Only connections of 127.0.0.0/8 are listed. None if the platform does not support it.
    """
    if not hasattr(socket, "AF_NETLINK"):
        return None
    states = sum(1 << state for state in (*_OPEN, *_CLOSED))
    body = struct.pack("=BBBBI", socket.AF_INET, socket.IPPROTO_TCP, 1 << (_INFO - 1), 0, states) + bytes(48)
    head = struct.pack("=IHHII", 16 + len(body), _BY_FAMILY, _DUMP, 1, 0)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
            kernel.settimeout(_TIMEOUT_S)
            kernel.send(head + body)
            return dict(_counts(kernel))
    except (OSError, struct.error):  # a sandbox without sock_diag, or an old kernel
        return None


def _counts(kernel: socket.socket) -> Iterator[tuple[LocalConnection, int]]:
    while True:
        response = kernel.recv(1 << 16)
        while response:
            size, kind = struct.unpack_from("=IH", response)
            if kind == _DONE:
                return
            if kind == _ERROR:
                raise OSError("the kernel does not list its sockets")
            message, response = response[16:size], response[(size + 3) & ~3 :]
            count = _received_bytes(message)
            if count is not None and message[_SOURCE_AT] == _LOOPBACK:
                ends = 1 if message[1] in _CLOSED else 0
                yield LocalConnection(*struct.unpack_from(">HH", message, 4)), count - ends


def _received_bytes(message: bytes) -> int | None:
    """Return `tcpi_bytes_received` of one socket. None if the kernel has freed the socket (it is in FIN_WAIT2).

    Raises `struct.error` if the kernel is too old to count.
    """
    position = _MESSAGE_BYTES
    while position < len(message):
        size, kind = struct.unpack_from("=HH", message, position)
        if kind == _INFO:
            (count,) = struct.unpack_from("=Q", message[position : position + size], 4 + _RECEIVED_AT)
            return int(count)
        position += (size + 3) & ~3
    return None
