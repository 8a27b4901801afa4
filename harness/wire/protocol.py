"""Send a request to one chosen broker, after authentication with SASL. Client libraries choose the broker themselves.

The SASL mechanisms are objects of kafka-python, which make the requests.

For OAUTHBEARER, this module requests tokens with client credentials (RFC 6749, section 4.4), and reuses valid ones. It
requests them as Kafka's and librdkafka's clients do: `grant_type=client_credentials`, with id and secret as HTTP Basic
authentication. Tokens are stored only in the memory of this process.

The requests are objects of kafka-python. Their version is set when they are created. Every request has a time-out, so a
broker that is down, paused or cut off never blocks a caller for longer.
"""

import socket
import ssl
import struct
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import requests
from kafka.errors import KafkaError
from kafka.net.sasl import get_sasl_mechanism
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.protocol.api_header import ResponseClassRegistry
from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from harness.common.errors import EnvironmentFailure
from harness.common.wording import HARNESS_CLIENT_ID
from harness.wire.security import PLAINTEXT, Credentials, NotTrusted, Security, tls_refusal

NO_ERROR = 0
UNSUPPORTED_MECHANISM = 33
TIMEOUT_S = 10.0
REFRESH_FACTOR = 0.8
"""The share of a token's life after which a new one is requested, as in Kafka's client.

See `sasl.login.refresh.window.factor`.
"""
_DEFAULT_LIFE_S = 60.0
_REFUSAL_STATUSES = (400, 401, 403)
HOST = "127.0.0.1"
MAX_RESPONSE_BYTES = 256 * 1024 * 1024


def authenticate(security: Security, host: str, broker: str, ask: Callable[[Any], Any]) -> None:
    """Authenticate on an open connection. `ask` sends a request on it and returns the response.

    Raises `NotTrusted` if the broker refuses.
    """
    steps = sasl_requests(security, host, broker)
    with suppress(StopIteration):
        request = next(steps)
        while True:
            request = steps.send(ask(request))


def sasl_requests(security: Security, host: str, broker: str) -> Generator[Any, Any, None]:
    """Yield the requests of a SASL authentication. The caller sends the response to each into the generator.

    Raises `NotTrusted` if the broker refuses.
    """
    mechanism = security.mechanism or ""
    handshake = yield SaslHandshakeRequest(mechanism=mechanism, version=1)
    if handshake.error_code == UNSUPPORTED_MECHANISM:
        offered = ", ".join(handshake.mechanisms)
        raise NotTrusted(
            f"{broker} does not support sasl.mechanism={mechanism}: set one that it supports ({offered or 'none'}) "
            "in the client-config file"
        )
    user = security.username
    if mechanism.startswith("SCRAM"):  # RFC 5802: commas and equals signs in a name must be escaped
        user = user.replace("=", "=3D").replace(",", "=2C")
    sasl = get_sasl_mechanism(mechanism)(
        host=host,
        sasl_plain_username=user,
        sasl_plain_password=security.password,
        sasl_mechanism=mechanism,
        sasl_oauth_token_provider=token_provider(security.credentials),
    )
    role = "the client" if security.credentials else "the user"
    refusal = f"{broker} does not let {role} {security.username} in with {mechanism}"
    while not sasl.is_done():
        try:
            auth_bytes = sasl.auth_bytes()
        except TokenUnavailable as error:
            raise NotTrusted(str(error)) from error
        answer = yield SaslAuthenticateRequest(auth_bytes=auth_bytes, version=1)
        if answer.error_code != NO_ERROR:
            message = f" ({answer.error_message})" if answer.error_message else ""
            advice = (
                "check scope in sasl.jaas.config of the client-config file, and what the brokers expect"
                if security.credentials
                else "check username and password in sasl.jaas.config of the client-config file"
            )
            raise NotTrusted(f"{refusal}{message}: {advice}")
        try:
            sasl.receive(answer.auth_bytes)
        except (ValueError, KeyError, KafkaError) as error:
            raise NotTrusted(
                f"{broker} does not prove with {mechanism} that it knows {role}'s password: {error}; "
                "check the bootstrap servers"
            ) from error


class TokenUnavailable(Exception):
    """There is no token. The message says why and what to do, without the secret."""


class Tokens(AbstractTokenProvider):  # type: ignore[misc]
    """Provides a valid token. Threads may share the object."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._token = ""
        self._until_s = 0.0
        self._lock = threading.Lock()

    def token(self) -> str:
        """Return a token. Request a new one if most of the last one's life is over. Raises `TokenUnavailable`."""
        with self._lock:
            if time.monotonic() >= self._until_s:
                requested_s = time.monotonic()
                self._token, life_s = fetch_token(self._credentials)
                self._until_s = requested_s + REFRESH_FACTOR * life_s
            return self._token


def fetch_token(credentials: Credentials) -> tuple[str, float]:
    """Request a new token. Return it with its life in seconds. Raises `TokenUnavailable`."""
    endpoint = f"the token endpoint {_without_secrets(credentials.url)}"
    # Kafka's clients use the machine's certificate authorities too.
    paths = ssl.get_default_verify_paths()
    form = {"grant_type": "client_credentials"} | ({"scope": credentials.scope} if credentials.scope else {})
    try:
        answer = requests.post(
            credentials.url,
            data=form,
            auth=partial(_add_basic_auth, credentials),  # this also keeps requests from using a netrc file
            timeout=TIMEOUT_S,
            verify=paths.cafile or paths.capath or True,
            allow_redirects=False,  # the secret must not be sent to another URL
        )
        body: Any = answer.json() if "json" in answer.headers.get("content-type", "") else {}
    except (requests.RequestException, OSError, ValueError) as error:
        raise TokenUnavailable(
            f"{endpoint} does not answer ({type(error).__name__}): "
            "check sasl.oauthbearer.token.endpoint.url in the client-config file"
        ) from error
    fields = body if isinstance(body, Mapping) else {}
    if answer.status_code in _REFUSAL_STATUSES:
        message = fields.get("error_description") or fields.get("error") or f"status {answer.status_code}"
        raise TokenUnavailable(
            f"{endpoint} gives the client {credentials.client_id} no token ({_redacted(str(message), credentials)}): "
            "check clientId, clientSecret and scope in sasl.jaas.config of the client-config file"
        )
    token = fields.get("access_token")
    if answer.status_code != requests.codes.ok or not isinstance(token, str) or not token:
        raise TokenUnavailable(
            f"{endpoint} answers with status {answer.status_code} and no access_token: "
            "check sasl.oauthbearer.token.endpoint.url in the client-config file"
        )
    life = fields.get("expires_in")
    return token, float(life) if isinstance(life, int | float) and life > 0 else _DEFAULT_LIFE_S


def _add_basic_auth(credentials: Credentials, request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Add HTTP Basic authentication in UTF-8, as Kafka's clients do. The library `requests` would use Latin-1."""
    pair = b64encode(f"{credentials.client_id}:{credentials.secret}".encode()).decode()
    request.headers["Authorization"] = f"Basic {pair}"
    return request


@lru_cache(maxsize=8)
def token_provider(credentials: Credentials | None) -> Tokens | None:
    """Return the provider of this process for these credentials."""
    return None if credentials is None else Tokens(credentials)


def _without_secrets(url: str) -> str:
    """Return a URL without user, password and query, which may be secret."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"


def _redacted(message: str, credentials: Credentials) -> str:
    return " ".join(message.replace(credentials.secret, "<redacted>").split())[:200]


class WireError(EnvironmentFailure):
    """A broker sent no response, or one that cannot be read. The message names its address."""


@dataclass(frozen=True)
class Address:
    """The address of a broker's listener, and how to connect to it."""

    host: str
    port: int
    security: Security = PLAINTEXT

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


Target = int | Address
"""A plaintext port of the local host, or an address. To an `Address`, an ApiVersions request is sent first."""


class KafkaConnection:
    """A connection to a broker for one request at a time. A context manager."""

    def __init__(self, target: Target, timeout_s: float) -> None:
        """Prepare a connection. `timeout_s` limits connecting, TLS and authentication."""
        self._target = target
        self._timeout_s = timeout_s
        self._broker = str(target) if isinstance(target, Address) else f"port {target}"
        self._socket: socket.socket | None = None
        self._api_versions: Mapping[int, tuple[int, int]] = {}  # lowest and highest version, by API key
        self._request_count = 0

    def __enter__(self) -> "KafkaConnection":
        address = self._target if isinstance(self._target, Address) else Address(HOST, self._target)
        deadline = time.monotonic() + self._timeout_s
        try:
            self._socket = socket.create_connection((address.host, address.port), self._timeout_s)
            if address.security.tls:
                context = address.security.context()
                self._socket = context.wrap_socket(self._socket, server_hostname=address.host)
            if isinstance(self._target, Address):
                self._check_versions_and_authenticate(address, deadline)
        except ssl.SSLError as error:
            self._close()
            raise tls_refusal(error, self._broker) from error
        except OSError as error:
            self._close()
            raise self._no_answer(self._timeout_s, error) from error
        except EnvironmentFailure:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def send_request(self, request: Any, timeout_s: float, deadline: float | None = None) -> Any:
        """Send a request and return the decoded response. Raises `WireError`.

        `deadline` is on the monotonic clock. With a deadline, `timeout_s` is used only in error messages.
        """
        try:
            return self._exchange(request, deadline or time.monotonic() + timeout_s)
        except ssl.SSLError as error:  # with TLS 1.3 a client's certificate is refused after the handshake
            raise tls_refusal(error, self._broker) from error
        except OSError as error:
            raise self._no_answer(timeout_s, error) from error

    def _exchange(self, request: Any, deadline: float) -> Any:
        assert self._socket is not None
        low, high = self._api_versions.get(request.API_KEY, (request.version, request.version))
        if not low <= request.version <= high:
            raise WireError(
                f"{self._broker} supports {request.name} in versions {low} to {high}, but Fencepost sends version "
                f"{request.version}: use Kafka 3.0 or newer"
            )
        self._request_count += 1
        self._socket.sendall(encode_request(request, self._request_count))
        size = int.from_bytes(_receive(self._socket, 4, deadline))
        if size > MAX_RESPONSE_BYTES:
            raise WireError(f"the server at {self._broker} is not a Kafka broker{self._security_hint()}")
        return decode_response(request, _receive(self._socket, size, deadline), self._broker)

    def _check_versions_and_authenticate(self, address: Address, deadline: float) -> None:
        """Read the broker's API versions, and authenticate."""
        response = self._exchange(ApiVersionsRequest(version=0), deadline)
        self._api_versions = {key.api_key: (key.min_version, key.max_version) for key in response.api_keys}
        if address.security.sasl:
            try:
                authenticate(
                    address.security,
                    address.host,
                    self._broker,
                    lambda request: self._exchange(request, deadline),
                )
            except ConnectionResetError as error:
                raise NotTrusted(
                    f"{self._broker} closed the connection during the {address.security.mechanism} authentication: "
                    "check security.protocol and sasl.mechanism in the client-config file"
                ) from error

    def _no_answer(self, timeout_s: float, error: OSError) -> WireError:
        hint = self._security_hint() if isinstance(error, ConnectionResetError) else ""
        return WireError(f"no answer from {self._broker} within {timeout_s:g} s: {error}{hint}")

    def _security_hint(self) -> str:
        is_plain = isinstance(self._target, Address) and self._target.security == PLAINTEXT
        return ", or it expects TLS or SASL: set them in a client-config file" if is_plain else ""

    def _close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def encode_request(request: Any, number: int) -> bytes:
    """Encode a request: its length, a header with this correlation id, and its body."""
    request.with_header(number, HARNESS_CLIENT_ID)
    return bytes(request.encode(header=True, framed=True))


def decode_response(request: Any, answer: bytes, broker: str) -> Any:
    """Decode the response to a request that `encode_request` has encoded. Raises `WireError`, which names `broker`."""
    try:
        response = ResponseClassRegistry.get_response_class(request.header)
        return response.decode(answer, header=True)
    except (ValueError, IndexError, TypeError, struct.error) as error:
        raise WireError(f"the response of {broker} cannot be read: {error}") from error


def send_request(target: Target, request: Any, timeout_s: float) -> Any:
    """Send a request on a new connection, and return the decoded response. Raises `WireError`, `NotTrusted`."""
    deadline = time.monotonic() + timeout_s
    with KafkaConnection(target, timeout_s) as connection:
        return connection.send_request(request, timeout_s, deadline)


def is_answering(target: Target, timeout_s: float) -> bool:
    """Return whether a broker answers a request at this target."""
    try:
        send_request(target, ApiVersionsRequest(version=0), timeout_s)
    except WireError:
        return False
    return True


def _receive(connection: socket.socket, size: int, deadline: float) -> bytes:
    received = bytearray()
    while len(received) < size:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("timed out")
        connection.settimeout(left_s)
        part = connection.recv(size - len(received))
        if not part:
            raise ConnectionResetError("the connection was closed")
        received += part
    return bytes(received)
