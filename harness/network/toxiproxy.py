"""A thin client of toxiproxy's HTTP API (2.5), over the standard library."""

import http.client
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.errors import FaultFailed

HOST = "127.0.0.1"
_TIMEOUT_S = 5.0


class ToxiproxyError(FaultFailed):
    """The server did not do as it was told; the message has its words."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status  # of HTTP; None: no answer


@dataclass(frozen=True)
class Proxy:
    """A proxy: who connects to `listen_port` comes to `upstream_port`, both on the local host."""

    name: str
    listen_port: int
    upstream_port: int


class Toxiproxy:
    """The server on one port. Every request has a connection of its own, so threads may share this."""

    def __init__(self, port: int) -> None:
        self.port = port

    def version(self) -> str:
        """What the server calls itself; raises `ToxiproxyError` while there is none."""
        return str(self._ask("GET", "/version", raw=True)).strip()

    def populate(self, proxies: Sequence[Proxy]) -> None:
        """Create all of them; one that exists and differs is replaced."""
        body = [
            {
                "name": proxy.name,
                "listen": f"{HOST}:{proxy.listen_port}",
                "upstream": f"{HOST}:{proxy.upstream_port}",
                "enabled": True,
            }
            for proxy in proxies
        ]
        self._ask("POST", "/populate", body)

    def toxics(self) -> Mapping[str, Sequence[str]]:
        """The names of the toxics that are on, by proxy."""
        proxies = self._ask("GET", "/proxies")
        return {name: [toxic["name"] for toxic in proxy["toxics"]] for name, proxy in proxies.items()}

    def add_toxic(self, proxy: str, name: str, kind: str, stream: str, **attributes: int) -> None:
        """Put a toxic on one stream, `upstream` or `downstream`, of a proxy."""
        toxic = {"name": name, "type": kind, "stream": stream, "toxicity": 1.0, "attributes": attributes}
        self._ask("POST", f"/proxies/{proxy}/toxics", toxic)

    def remove_toxic(self, proxy: str, name: str) -> None:
        """Take a toxic away; does nothing if it is not there."""
        try:
            self._ask("DELETE", f"/proxies/{proxy}/toxics/{name}")
        except ToxiproxyError as error:
            if error.status != http.HTTPStatus.NOT_FOUND:
                raise

    def reset(self) -> None:
        """Take every toxic away, and enable every proxy."""
        self._ask("POST", "/reset")

    def _ask(self, method: str, path: str, body: Any = None, *, raw: bool = False) -> Any:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=_TIMEOUT_S)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            response = connection.getresponse()
            text = response.read().decode()
        except (OSError, http.client.HTTPException) as error:
            raise ToxiproxyError(f"toxiproxy on port {self.port} does not answer: {error}") from error
        finally:
            connection.close()
        if response.status >= 300:
            words = f"toxiproxy refused {method} {path} with status {response.status}: {text.strip()}"
            raise ToxiproxyError(words, response.status)
        return text if raw or not text else json.loads(text)
