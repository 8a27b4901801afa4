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


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts the bytes that a socket has received")
def test_both_directions_of_a_link_are_counted_without_the_fin() -> None:
    """The test plays the proxy: it accepts the client's connection, and dials the broker."""
    with socket.create_server(("127.0.0.1", 0)) as proxy, socket.create_server(("127.0.0.1", 0)) as broker:
        listen_port, broker_port = proxy.getsockname()[1], broker.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", listen_port))
        to_broker = socket.create_connection(("127.0.0.1", broker_port))
        from_client, _ = proxy.accept()
        from_proxy, _ = broker.accept()
        with client, to_broker, from_client, from_proxy:
            client.sendall(b"before")
            wait_for(
                lambda: (read_received_bytes() or {}).get(_connection_of(from_client)) == 6, "six bytes", 5.0
            )
            meter = SocketMeter(read_received_bytes, {"link": ProxyPorts(listen_port, broker_port)})
            assert meter.traffic() == {"link": (0, 0)}
            client.sendall(b"x" * 100)
            from_proxy.sendall(b"y" * 30)
            wait_for(
                lambda: meter.traffic() == {"link": (100, 30)}, "130 bytes", 5.0, last_seen=meter.traffic
            )
            client.shutdown(socket.SHUT_WR)
            assert from_client.recv(200) and from_client.recv(1) == b""  # the FIN has arrived
            assert meter.traffic() == {"link": (100, 30)}


def _connection_of(end: socket.socket) -> LocalConnection:
    return LocalConnection(end.getsockname()[1], end.getpeername()[1])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts the bytes that a socket has received")
def test_a_connection_that_one_end_has_closed_does_not_hide_the_other_end() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        accepted, _ = server.accept()
        port = client.getsockname()[1]
        client.shutdown(socket.SHUT_WR)
        with accepted:
            assert accepted.recv(1) == b""
            client.close()  # its FIN was acknowledged, so the kernel keeps only a part of the socket, without counts

            def closed() -> ReceivedBytes | None:
                counts = read_received_bytes() or {}
                return None if port in {connection.local_port for connection in counts} else counts

            counts = wait_for(closed, "the kernel to have closed one end", 2.0)
            assert counts[_connection_of(accepted)] == 0


def test_without_netlink_nothing_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "AF_NETLINK", raising=False)
    assert read_received_bytes() is None
    assert SocketMeter(read_received_bytes, {"link": ProxyPorts(1, 2)}).traffic() is None


def test_a_sandbox_that_forbids_netlink_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("not here")

    monkeypatch.setattr(socket, "socket", refuse)
    assert read_received_bytes() is None
