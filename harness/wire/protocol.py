"""Send a request to one chosen broker. Client libraries choose the broker themselves.

The requests are objects of kafka-python. Their version is set when they are created. Every request has a time-out, so a
broker that is down, paused or cut off never blocks a caller for longer.
"""

import socket
import ssl
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from kafka.protocol.api_header import ResponseClassRegistry
from kafka.protocol.metadata import ApiVersionsRequest

from harness.common.errors import EnvironmentFailure
from harness.common.names import HARNESS_CLIENT_ID
from harness.wire.sasl import authenticate
from harness.wire.security import PLAINTEXT, NotTrusted, Security, tls_refusal

HOST = "127.0.0.1"
MAX_RESPONSE_BYTES = 256 * 1024 * 1024


class WireError(EnvironmentFailure):
    """A broker sent no response, or one that cannot be read. The message names its address."""


@dataclass(frozen=True)
class Address:
    """The address of a broker's listener, and how to connect to it."""

    host: str
    port: int
    security: Security = PLAINTEXT

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


Target = int | Address
"""A plaintext port of the local host, or an address. To an `Address`, an ApiVersions request is sent first."""


class KafkaConnection:
    """A connection to a broker for one request at a time. A context manager."""

    def __init__(self, target: Target, timeout_s: float) -> None:
        """Prepare a connection. `timeout_s` limits connecting, TLS and authentication."""
        self._target = target
        self._timeout_s = timeout_s
        self._broker = str(target) if isinstance(target, Address) else f"port {target}"
        self._socket: socket.socket | None = None
        self._api_versions: Mapping[int, tuple[int, int]] = {}  # lowest and highest version, by API key
        self._request_count = 0

    def __enter__(self) -> "KafkaConnection":
        address = self._target if isinstance(self._target, Address) else Address(HOST, self._target)
        deadline = time.monotonic() + self._timeout_s
        try:
            self._socket = socket.create_connection((address.host, address.port), self._timeout_s)
            if address.security.tls:
                context = address.security.context()
                self._socket = context.wrap_socket(self._socket, server_hostname=address.host)
            if isinstance(self._target, Address):
                self._check_versions_and_authenticate(address, deadline)
        except ssl.SSLError as error:
            self._close()
            raise tls_refusal(error, self._broker) from error
        except OSError as error:
            self._close()
            raise self._no_answer(self._timeout_s, error) from error
        except EnvironmentFailure:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def send_request(self, request: Any, timeout_s: float, deadline: float | None = None) -> Any:
        """Send a request and return the decoded response. Raises `WireError`.

        `deadline` is on the monotonic clock. With a deadline, `timeout_s` is used only in error messages.
        """
        try:
            return self._exchange(request, deadline or time.monotonic() + timeout_s)
        except ssl.SSLError as error:  # with TLS 1.3 a client's certificate is refused after the handshake
            raise tls_refusal(error, self._broker) from error
        except OSError as error:
            raise self._no_answer(timeout_s, error) from error

    def _exchange(self, request: Any, deadline: float) -> Any:
        assert self._socket is not None
        low, high = self._api_versions.get(request.API_KEY, (request.version, request.version))
        if not low <= request.version <= high:
            raise WireError(
                f"{self._broker} supports {request.name} in versions {low} to {high}, but Fencepost sends version "
                f"{request.version}: use Kafka 3.0 or newer"
            )
        self._request_count += 1
        self._socket.sendall(encode_request(request, self._request_count))
        size = int.from_bytes(_receive(self._socket, 4, deadline))
        if size > MAX_RESPONSE_BYTES:
            raise WireError(f"the server at {self._broker} is not a Kafka broker{self._security_hint()}")
        return decode_response(request, _receive(self._socket, size, deadline), self._broker)

    def _check_versions_and_authenticate(self, address: Address, deadline: float) -> None:
        """Read the broker's API versions, and authenticate."""
        response = self._exchange(ApiVersionsRequest(version=0), deadline)
        self._api_versions = {key.api_key: (key.min_version, key.max_version) for key in response.api_keys}
        if address.security.sasl:
            try:
                authenticate(
                    address.security,
                    address.host,
                    self._broker,
                    lambda request: self._exchange(request, deadline),
                )
            except ConnectionResetError as error:
                raise NotTrusted(
                    f"{self._broker} closed the connection during the {address.security.mechanism} authentication: "
                    "check security.protocol and sasl.mechanism in the client-config file"
                ) from error

    def _no_answer(self, timeout_s: float, error: OSError) -> WireError:
        hint = self._security_hint() if isinstance(error, ConnectionResetError) else ""
        return WireError(f"no answer from {self._broker} within {timeout_s:g} s: {error}{hint}")

    def _security_hint(self) -> str:
        is_plain = isinstance(self._target, Address) and self._target.security == PLAINTEXT
        return ", or it expects TLS or SASL: set them in a client-config file" if is_plain else ""

    def _close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def encode_request(request: Any, number: int) -> bytes:
    """Encode a request: its length, a header with this correlation id, and its body."""
    request.with_header(number, HARNESS_CLIENT_ID)
    return bytes(request.encode(header=True, framed=True))


def decode_response(request: Any, answer: bytes, broker: str) -> Any:
    """Decode the response to a request that `encode_request` has encoded. Raises `WireError`, which names `broker`."""
    try:
        response = ResponseClassRegistry.get_response_class(request.header)
        return response.decode(answer, header=True)
    except (ValueError, IndexError, TypeError, struct.error) as error:
        raise WireError(f"the response of {broker} cannot be read: {error}") from error


def send_request(target: Target, request: Any, timeout_s: float) -> Any:
    """Send a request on a new connection, and return the decoded response. Raises `WireError`, `NotTrusted`."""
    deadline = time.monotonic() + timeout_s
    with KafkaConnection(target, timeout_s) as connection:
        return connection.send_request(request, timeout_s, deadline)


def is_answering(target: Target, timeout_s: float) -> bool:
    """Return whether a broker answers a request at this target."""
    try:
        send_request(target, ApiVersionsRequest(version=0), timeout_s)
    except WireError:
        return False
    return True


def _receive(connection: socket.socket, size: int, deadline: float) -> bytes:
    received = bytearray()
    while len(received) < size:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("timed out")
        connection.settimeout(left_s)
        part = connection.recv(size - len(received))
        if not part:
            raise ConnectionResetError("the connection was closed")
        received += part
    return bytes(received)
