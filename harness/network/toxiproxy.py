"""A client of toxiproxy's HTTP API (2.5), built on toxiproxy-python.

That library keeps the server's address in class attributes, so a process can use only one server. Its `populate` and
`reset` have no time-out, so this client calls the paths itself. It translates errors to `ToxiproxyError`.
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
"""The arguments of each HTTP request: a time-out, and no HTTP proxy even if the environment names one."""


class ToxiproxyError(FaultFailed):
    """The server refused a request or did not answer. The message includes its response."""

    def __init__(self, message: str, *, missing: bool = False) -> None:
        super().__init__(message)
        self.missing = missing  # whether the proxy or toxic does not exist


@dataclass(frozen=True)
class Proxy:
    """A proxy from `listen_port` to `upstream_port`.

    This machine reaches both ports on localhost. The server listens on `listen_host` and dials `upstream_host`. They
    differ from localhost if the server runs in a container.
    """

    name: str
    listen_port: int
    upstream_port: int
    listen_host: str = HOST
    upstream_host: str = HOST


class Toxiproxy:
    """A client of the only server that this process uses. Threads may share it: each request opens a connection."""

    def __init__(self, port: int) -> None:
        self.port = port
        APIConsumer.host, APIConsumer.port = HOST, port

    def version(self) -> str:
        """Return the server's version. Raises `ToxiproxyError` while it does not answer."""
        return self._send(APIConsumer.get, "/version").text.strip()

    def populate(self, proxies: Sequence[Proxy]) -> None:
        """Create proxies. If a proxy of that name exists and differs, it is replaced."""
        body = [
            {
                "name": proxy.name,
                "listen": f"{proxy.listen_host}:{proxy.listen_port}",
                "upstream": f"{proxy.upstream_host}:{proxy.upstream_port}",
                "enabled": True,
            }
            for proxy in proxies
        ]
        self._send(APIConsumer.post, "/populate", json=body)

    def toxics(self) -> Mapping[str, Sequence[str]]:
        """Return the names of the active toxics by proxy. A proxy that is switched off has `disabled`, too."""
        proxies = self._send(APIConsumer.get, "/proxies").json()
        return {
            name: [toxic["name"] for toxic in proxy["toxics"]] + ["disabled"] * (not proxy["enabled"])
            for name, proxy in proxies.items()
        }

    def enable(self, proxy: str, enabled: bool) -> None:
        """Let a proxy listen again, or close its port and its connections."""
        self._send(APIConsumer.post, f"/proxies/{proxy}", json={"enabled": enabled})

    def add_toxic(self, proxy: str, name: str, kind: str, stream: str, **attributes: int) -> None:
        """Add a toxic to a proxy. `stream` is `upstream` or `downstream`."""
        toxic = {"name": name, "type": kind, "stream": stream, "toxicity": 1.0, "attributes": attributes}
        self._send(APIConsumer.post, f"/proxies/{proxy}/toxics", json=toxic)

    def remove_toxic(self, proxy: str, name: str) -> None:
        """Remove a toxic, if it exists."""
        try:
            self._send(APIConsumer.delete, f"/proxies/{proxy}/toxics/{name}")
        except ToxiproxyError as error:
            if not error.missing:
                raise

    def reset(self) -> None:
        """Remove all toxics, and enable all proxies."""
        self._send(APIConsumer.post, "/reset")

    def _send(self, send: Callable[..., requests.Response], path: str, **body: Any) -> requests.Response:
        try:
            response = send(path, **body, **_LIMITS)
        except (ProxyExists, NotFound, InvalidToxic) as error:
            (body_of_error,) = error.args  # the body of the response, as bytes
            text = f"toxiproxy refused {path}: {body_of_error.decode(errors='replace').strip()}"
            raise ToxiproxyError(text, missing=isinstance(error, NotFound)) from error
        except (requests.RequestException, ValueError) as error:
            raise ToxiproxyError(f"toxiproxy on port {self.port} does not answer: {error}") from error
        if not response.ok:
            message = f"toxiproxy refused {path} with status {response.status_code}: {response.text.strip()}"
            raise ToxiproxyError(message)
        return response
