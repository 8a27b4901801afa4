"""The client of toxiproxy's API, against a fake server."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from harness.network.toxiproxy import Proxy, Toxiproxy, ToxiproxyError


class Server(ThreadingHTTPServer):
    status = 200
    body = "2.5.0"

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[tuple[str, str, str]] = []  # method, path and body


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        self.server.requests.append((self.command, self.path, body))
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(self.server.body.encode())

    do_POST = do_DELETE = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def client_of(server: Server) -> Toxiproxy:
    return Toxiproxy(server.server_address[1])


def test_each_method_sends_its_request(server: Server) -> None:
    client = client_of(server)
    assert client.version() == "2.5.0"
    client.populate([Proxy("a", 1, 2)])
    client.add_toxic("a", "cut", "timeout", "upstream", timeout=0)
    client.remove_toxic("a", "cut")
    client.enable("a", False)
    client.reset()
    assert [(method, path) for method, path, _ in server.requests] == [
        ("GET", "/version"),
        ("POST", "/populate"),
        ("POST", "/proxies/a/toxics"),
        ("DELETE", "/proxies/a/toxics/cut"),
        ("POST", "/proxies/a"),
        ("POST", "/reset"),
    ]
    assert '"listen": "127.0.0.1:1"' in server.requests[1][2]


def test_an_http_proxy_of_the_environment_is_not_used(server: Server, monkeypatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert client_of(server).version() == "2.5.0"


@pytest.mark.parametrize("status", [400, 404, 409, 500])
def test_a_refusal_includes_the_servers_message(server: Server, status: int) -> None:
    server.status, server.body = status, "no such thing"
    with pytest.raises(ToxiproxyError, match="no such thing"):
        client_of(server).reset()


def test_removing_a_toxic_that_does_not_exist_is_no_error(server: Server) -> None:
    server.status = 404
    client_of(server).remove_toxic("a", "cut")
    server.status = 500
    with pytest.raises(ToxiproxyError):
        client_of(server).remove_toxic("a", "cut")


def test_a_server_that_does_not_answer_is_an_error(server: Server) -> None:
    client = client_of(server)
    server.server_close()
    with pytest.raises(ToxiproxyError, match="does not answer"):
        client.version()
