"""A request of the harness says how it ended, how long it took, and in how many pieces the response came."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from kafka.protocol.metadata import ApiVersionsRequest

from harness.network.traffic import ProbeEnding, probe

WITHIN_S = 5.0
ANSWER = (12).to_bytes(4) + (1).to_bytes(4) + bytes(8)


@contextmanager
def server(serve: Callable[[socket.socket, bytes], None]) -> Iterator[int]:
    """Serve one connection: call `serve` with it and with the request that came."""

    def run() -> None:
        connection, _ = listening.accept()
        with connection:
            request = connection.recv(4, socket.MSG_WAITALL)
            request += connection.recv(int.from_bytes(request), socket.MSG_WAITALL)
            serve(connection, request)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=run)
        thread.start()
        yield listening.getsockname()[1]
        thread.join(WITHIN_S)


def reset(connection: socket.socket, _: bytes) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.parametrize(
    ("serve", "ending", "pieces"),
    [
        (lambda connection, _: connection.sendall(ANSWER), ProbeEnding.ANSWERED, 1),
        (lambda connection, _: connection.sendall(ANSWER[:9]), ProbeEnding.CLOSED, 1),
        (lambda connection, _: None, ProbeEnding.CLOSED, 0),
        (lambda connection, _: connection.sendall(b"HTTP/1.1 400 Bad Request\r\n"), ProbeEnding.CLOSED, 1),
        (reset, ProbeEnding.RESET, 0),
    ],
)
def test_a_request_ends_as_the_server_ends_it(
    serve: Callable[[socket.socket, bytes], None], ending: ProbeEnding, pieces: int
) -> None:
    with server(serve) as port:
        result = probe(port, WITHIN_S)
    assert (result.ending, result.pieces) == (ending, pieces)
    assert result.is_answered == (ending is ProbeEnding.ANSWERED)


def test_a_port_without_an_answer_and_one_without_a_process() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        result = probe(port, 0.05)
        assert result.ending is ProbeEnding.UNANSWERED and result.elapsed_s >= 0.05
    assert probe(port, WITHIN_S).ending is ProbeEnding.REFUSED


@pytest.mark.parametrize("padding_bytes", [0, 1, 127, 128, 100_000])
def test_the_request_is_valid_and_has_the_padding_in_a_tagged_field(padding_bytes: int) -> None:
    requests = []
    with server(lambda connection, request: requests.append(request)) as port:
        probe(port, WITHIN_S, padding_bytes)
    (request,) = requests
    decoded = ApiVersionsRequest.decode(request[4:], version=3, header=True)
    assert decoded.client_software_name == "fencepost"
    assert padding_bytes <= len(request) - 45 <= padding_bytes + 6
