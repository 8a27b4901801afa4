"""Authenticate with SASL.

The SASL mechanisms are objects of kafka-python, which make the requests. `harness.wire.protocol` sends them.

For OAUTHBEARER, this module requests tokens with client credentials (RFC 6749, section 4.4), and reuses valid ones. It
requests them as Kafka's and librdkafka's clients do: `grant_type=client_credentials`, with id and secret as HTTP Basic
authentication. Tokens are stored only in the memory of this process.
"""

import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any
from urllib.parse import urlsplit

import requests
from kafka.errors import KafkaError
from kafka.net.sasl import get_sasl_mechanism
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from harness.wire.security import Credentials, NotTrusted, Security

NO_ERROR = 0
UNSUPPORTED_MECHANISM = 33
TIMEOUT_S = 10.0
REFRESH_FACTOR = 0.8
"""The share of a token's life after which a new one is requested, as in Kafka's client.

See `sasl.login.refresh.window.factor`.
"""
_DEFAULT_LIFE_S = 60.0
_REFUSAL_STATUSES = (400, 401, 403)


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
