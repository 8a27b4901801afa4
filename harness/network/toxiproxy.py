"""What we ask of toxiproxy's HTTP API (2.5), through toxiproxy-python.

Its consumer holds the server's address in class attributes, so a process can talk to one server. Its own
`populate` and `reset` have no time-out, so the paths are given here; its errors become `ToxiproxyError`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import requests
from toxiproxy.api import APIConsumer
from toxiproxy.exceptions import InvalidToxic, NotFound, ProxyExists

from harness.common.errors import FaultFailed

HOST = "127.0.0.1"
_LIMITS: Mapping[str, Any] = {"timeout": 5.0, "proxies": {"http": None, "all": None}}
"""Of each request: a time-out, and no HTTP proxy, whatever the environment names."""


class ToxiproxyError(FaultFailed):
    """The server did not do as it was told; the message has its words."""

    def __init__(self, message: str, *, missing: bool = False) -> None:
        super().__init__(message)
        self.missing = missing  # what was named is not there


@dataclass(frozen=True)
class Proxy:
    """A proxy: who connects to `listen_port` comes to `upstream_port`. From here both are on the local host; the hosts
    are what the server itself listens on and dials, which is another thing where it runs in a container.
    """

    name: str
    listen_port: int
    upstream_port: int
    listen_host: str = HOST
    upstream_host: str = HOST


class Toxiproxy:
    """The one server of this process. Every request has a connection of its own, so threads may share this."""

    def __init__(self, port: int) -> None:
        self.port = port
        APIConsumer.host, APIConsumer.port = HOST, port

    def version(self) -> str:
        """What the server calls itself; raises `ToxiproxyError` while there is none."""
        return self._ask(APIConsumer.get, "/version").text.strip()

    def populate(self, proxies: Sequence[Proxy]) -> None:
        """Create all of them; one that exists and differs is replaced."""
        body = [
            {
                "name": proxy.name,
                "listen": f"{proxy.listen_host}:{proxy.listen_port}",
                "upstream": f"{proxy.upstream_host}:{proxy.upstream_port}",
                "enabled": True,
            }
            for proxy in proxies
        ]
        self._ask(APIConsumer.post, "/populate", json=body)

    def toxics(self) -> Mapping[str, Sequence[str]]:
        """The names of the toxics that are on, by proxy."""
        proxies = self._ask(APIConsumer.get, "/proxies").json()
        return {name: [toxic["name"] for toxic in proxy["toxics"]] for name, proxy in proxies.items()}

    def add_toxic(self, proxy: str, name: str, kind: str, stream: str, **attributes: int) -> None:
        """Put a toxic on one stream, `upstream` or `downstream`, of a proxy."""
        toxic = {"name": name, "type": kind, "stream": stream, "toxicity": 1.0, "attributes": attributes}
        self._ask(APIConsumer.post, f"/proxies/{proxy}/toxics", json=toxic)

    def remove_toxic(self, proxy: str, name: str) -> None:
        """Take a toxic away; does nothing if it is not there."""
        try:
            self._ask(APIConsumer.delete, f"/proxies/{proxy}/toxics/{name}")
        except ToxiproxyError as error:
            if not error.missing:
                raise

    def reset(self) -> None:
        """Take every toxic away, and enable every proxy."""
        self._ask(APIConsumer.post, "/reset")

    def _ask(self, send: Callable[..., requests.Response], path: str, **body: Any) -> requests.Response:
        try:
            response = send(path, **body, **_LIMITS)
        except (ProxyExists, NotFound, InvalidToxic) as error:  # bytes: the body of the answer
            (words,) = error.args
            text = f"toxiproxy refused {path}: {words.decode(errors='replace').strip()}"
            raise ToxiproxyError(text, missing=isinstance(error, NotFound)) from error
        except (requests.RequestException, ValueError) as error:
            raise ToxiproxyError(f"toxiproxy on port {self.port} does not answer: {error}") from error
        if not response.ok:
            words = f"toxiproxy refused {path} with status {response.status_code}: {response.text.strip()}"
            raise ToxiproxyError(words)
        return response
