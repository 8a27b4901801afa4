"""One request on one connection to one broker: what a client library hides, and a view needs.

Messages are kafka-python's (their version given when they are made). Every question is bounded; a
broker that is down, paused or cut costs its time-out and no more.
"""

import socket
import struct
import time
from typing import Any

from kafka.protocol.api_header import ResponseClassRegistry
from kafka.protocol.metadata import ApiVersionsRequest

from harness.errors import EnvironmentFailure

HOST = "127.0.0.1"
_CLIENT_ID = "fencepost"
_CORRELATION = 1
_LARGEST_ANSWER = 256 * 1024 * 1024


class WireError(EnvironmentFailure):
    """No answer, or none that can be read; the message says from which port."""


def ask(port: int, request: Any, timeout_s: float) -> Any:
    """Send a request to a port of the local host; returns the decoded response. Raises `WireError`."""
    request.with_header(_CORRELATION, _CLIENT_ID)
    deadline = time.monotonic() + timeout_s
    try:
        with socket.create_connection((HOST, port), timeout_s) as connection:
            connection.sendall(request.encode(header=True, framed=True))
            size = int.from_bytes(_receive(connection, 4, deadline))
            if size > _LARGEST_ANSWER:
                raise WireError(f"what listens on port {port} is no Kafka broker")
            body = _receive(connection, size, deadline)
    except OSError as error:
        raise WireError(f"no answer from port {port} within {timeout_s:g} s: {error}") from error
    try:
        response = ResponseClassRegistry.get_response_class(request.header)
        return response.decode(body, header=True)
    except (ValueError, IndexError, TypeError, struct.error) as error:
        raise WireError(f"the answer from port {port} cannot be read: {error}") from error


def answers(port: int, timeout_s: float) -> bool:
    """Whether what listens on a port answers a request."""
    try:
        ask(port, ApiVersionsRequest(version=0), timeout_s)
    except WireError:
        return False
    return True


def _receive(connection: socket.socket, size: int, deadline: float) -> bytes:
    received = bytearray()
    while len(received) < size:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        connection.settimeout(left)
        part = connection.recv(size - len(received))
        if not part:
            raise ConnectionResetError("the connection was closed")
        received += part
    return bytes(received)
