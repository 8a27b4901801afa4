import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest

from harness.network.toxiproxy import Toxiproxy, ToxiproxyError
from harness.wire.protocol import WireError, is_answering, send_request


@contextmanager
def server(handle: Callable[[socket.socket], None]) -> Iterator[int]:
    """Run a server that accepts one connection. Yield its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                handle(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(5)


def never_answer(connection: socket.socket) -> None:
    while connection.recv(1024):
        pass


def one_byte_at_a_time(connection: socket.socket) -> None:
    connection.recv(1024)
    response = ApiVersionsResponse(error_code=0, api_keys=[], version=0)
    response.with_header(1)
    for byte in response.encode(header=True, framed=True):
        connection.sendall(bytes([byte]))


def test_a_response_may_arrive_in_pieces() -> None:
    with server(one_byte_at_a_time) as port:
        assert send_request(port, ApiVersionsRequest(version=0), 5).error_code == 0


def test_a_server_that_does_not_answer_is_an_error_after_the_time_out() -> None:
    with (
        server(never_answer) as port,
        pytest.raises(WireError, match=f"no answer from port {port} within 0.02 s"),
    ):
        send_request(port, MetadataRequest(topics=None, version=12), 0.02)


def test_a_server_that_closes_the_connection_is_not_answering() -> None:
    with server(lambda connection: None) as port:
        assert not is_answering(port, 5)


def test_a_port_without_a_server_is_not_answering() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert not is_answering(port, 5)
    with pytest.raises(ToxiproxyError, match=f"toxiproxy on port {port} does not answer"):
        Toxiproxy(port).version()


def test_a_server_that_is_not_a_broker_is_recognized() -> None:
    def http(connection: socket.socket) -> None:
        connection.recv(1024)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n")

    with server(http) as port, pytest.raises(WireError, match="not a Kafka broker"):
        send_request(port, ApiVersionsRequest(version=0), 5)


def test_a_response_that_cannot_be_read_is_a_wire_error() -> None:
    def garbage(connection: socket.socket) -> None:
        connection.recv(1024)
        connection.sendall(b"\x00\x00\x00\x06\x00\x00\x00\x01\x00\x00")

    with server(garbage) as port, pytest.raises(WireError, match="cannot be read"):
        send_request(port, ApiVersionsRequest(version=0), 5)
