"""The bytes that sockets have received, as the kernel counts them."""

import socket
import sys

import pytest

from harness.common.waiting import wait_for
from harness.network.traffic import (
    LocalConnection,
    ProxyPorts,
    ReceivedBytes,
    SocketMeter,
    read_received_bytes,
)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says how many bytes a socket has received")
def test_both_directions_of_a_link_are_counted_and_its_end_is_not() -> None:
    """A proxy by hand: a client, what the proxy accepts, what the proxy dials, and a broker that accepts that."""
    with socket.create_server(("127.0.0.1", 0)) as listens, socket.create_server(("127.0.0.1", 0)) as broker:
        port, dialed = listens.getsockname()[1], broker.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))
        above = socket.create_connection(("127.0.0.1", dialed))
        accepted, _ = listens.accept()
        answering, _ = broker.accept()
        with client, above, accepted, answering:
            client.sendall(b"before")
            wait_for(lambda: (read_received_bytes() or {}).get(_of(accepted)) == 6, "six bytes", 5.0)
            meter = SocketMeter(read_received_bytes, {"link": ProxyPorts(port, dialed)})
            assert meter.traffic() == {"link": (0, 0)}
            client.sendall(b"x" * 100)
            answering.sendall(b"y" * 30)
            wait_for(
                lambda: meter.traffic() == {"link": (100, 30)}, "130 bytes", 5.0, last_seen=meter.traffic
            )
            client.shutdown(socket.SHUT_WR)
            assert accepted.recv(200) and accepted.recv(1) == b""  # the end has arrived
            assert meter.traffic() == {"link": (100, 30)}


def _of(one: socket.socket) -> LocalConnection:
    return LocalConnection(one.getsockname()[1], one.getpeername()[1])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says how many bytes a socket has received")
def test_a_connection_that_one_end_has_closed_keeps_nobody_from_counting_the_others() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listens:
        client = socket.create_connection(listens.getsockname())
        accepted, _ = listens.accept()
        port = client.getsockname()[1]
        client.shutdown(socket.SHUT_WR)
        with accepted:
            assert accepted.recv(1) == b""
            client.close()  # its end was acknowledged: the kernel keeps a part of it, which counts nothing

            def closed() -> ReceivedBytes | None:
                counted = read_received_bytes() or {}
                return None if port in {one.local_port for one in counted} else counted

            counted = wait_for(closed, "the kernel to have closed one end", 2.0)
            assert counted[_of(accepted)] == 0


def test_where_the_kernel_does_not_say_nothing_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "AF_NETLINK", raising=False)
    assert read_received_bytes() is None
    assert SocketMeter(read_received_bytes, {"link": ProxyPorts(1, 2)}).traffic() is None


def test_a_sandbox_that_refuses_the_question_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("not here")

    monkeypatch.setattr(socket, "socket", refuse)
    assert read_received_bytes() is None
