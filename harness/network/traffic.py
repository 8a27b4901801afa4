"""The use of links: count the bytes that were sent over each, and send a request through one.

Linux counts the bytes that each TCP socket has received, and any user may read the counts (sock_diag(7);
`tcpi_bytes_received` of TCP_INFO, since Linux 4.1). The sockets of a proxy show both directions of its link. Requests
are received on the proxy's listening port. Responses are received on the connection that the proxy has dialed.
Toxiproxy's own metrics are not used, because they count a connection only after it closes.
"""

import socket
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from kafka.protocol.metadata import ApiVersionsRequest

from harness.network import LinkTraffic
from harness.wire.protocol import HOST, encode_request

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
MOST_RESPONSE_BYTES = 1 << 20
_BUFFER_BYTES = 1 << 16
_CORRELATION_ID = 1
_PADDING_TAG = 10_000
"""The number of the tagged field that pads a request. No version of Kafka has it, so brokers ignore it (KIP-482)."""


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


class ProbeEnding(StrEnum):
    """How a request ended. The value completes "a request through it ..."."""

    ANSWERED = "is answered"
    REFUSED = "is refused"  # nothing listens on the port
    RESET = "is reset"  # the connection was ended by RST
    CLOSED = "is closed without an answer"
    UNANSWERED = "stays unanswered"


@dataclass(frozen=True)
class ProbeResult:
    """How a request ended."""

    ending: ProbeEnding
    elapsed_s: float = 0.0
    pieces: int = 0  # how often bytes of the response were received

    @property
    def is_answered(self) -> bool:
        """Whether the whole response came."""
        return self.ending is ProbeEnding.ANSWERED


def probe(port: int, timeout_s: float, padding_bytes: int = 0) -> ProbeResult:
    """Send an ApiVersions request to a plaintext port of this machine, with so many bytes that have no meaning."""
    start_s = time.monotonic()
    pieces = 0
    try:
        with socket.create_connection((HOST, port), timeout_s) as connection:
            connection.sendall(_request(padding_bytes))
            received = bytearray()
            while _missing_bytes(received) > 0:
                connection.settimeout(max(0.001, timeout_s - (time.monotonic() - start_s)))
                part = connection.recv(_BUFFER_BYTES)
                if not part:
                    return ProbeResult(ProbeEnding.CLOSED, time.monotonic() - start_s, pieces)
                received += part
                pieces += 1
    except ConnectionRefusedError:
        ending = ProbeEnding.REFUSED
    except (ConnectionResetError, BrokenPipeError):
        ending = ProbeEnding.RESET
    except OSError:  # also a time-out
        ending = ProbeEnding.UNANSWERED
    else:
        is_response = int.from_bytes(received[4:8]) == _CORRELATION_ID
        ending = ProbeEnding.ANSWERED if is_response else ProbeEnding.CLOSED
    return ProbeResult(ending, time.monotonic() - start_s, pieces)


def _request(padding_bytes: int) -> bytes:
    request = ApiVersionsRequest(version=3, client_software_name="fencepost", client_software_version="1")
    encoded = encode_request(request, _CORRELATION_ID)
    if not padding_bytes:
        return encoded
    # The last byte of the body is the number of its tagged fields, which is 0.
    tagged = b"\x01" + _varint(_PADDING_TAG) + _varint(padding_bytes) + bytes(padding_bytes)
    body = encoded[4:-1] + tagged
    return len(body).to_bytes(4) + body


def _varint(number: int) -> bytes:
    """Encode an unsigned number of variable length: seven bits a byte, the lowest first."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def _missing_bytes(received: bytearray) -> int:
    """Return how many bytes of the length, or of the response after it, have not come yet."""
    if len(received) < 4:
        return 4 - len(received)
    return 4 + min(int.from_bytes(received[:4]), MOST_RESPONSE_BYTES) - len(received)
