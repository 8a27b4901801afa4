"""A request of the harness through a link, or past it, and how it ended."""

import socket
import time
from dataclasses import dataclass
from enum import StrEnum

from kafka.protocol.metadata import ApiVersionsRequest

from harness.wire.protocol import HOST, encode_request

MOST_RESPONSE_BYTES = 1 << 20
_BUFFER_BYTES = 1 << 16
_CORRELATION_ID = 1
_PADDING_TAG = 10_000
"""The number of the tagged field that pads a request. No version of Kafka has it, so brokers ignore it (KIP-482)."""


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
