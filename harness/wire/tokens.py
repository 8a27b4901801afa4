"""Tokens for SASL OAUTHBEARER, asked for with a client's own credentials (RFC 6749, section 4.4), kept while they last.

The request is the one that Kafka's and librdkafka's clients send: `grant_type=client_credentials`, id and secret as
HTTP Basic authentication. A token is kept in this process alone.
"""

import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any
from urllib.parse import urlsplit

import requests
from kafka.net.sasl.oauth import AbstractTokenProvider

OAUTHBEARER = "OAUTHBEARER"
TIMEOUT_S = 10.0
KEPT_SHARE = 0.8
"""Of a token's life: then the next one is asked for, as Kafka's client does (`sasl.login.refresh.window.factor`)."""
_UNSTATED_LIFE_S = 60.0
_REFUSED = (400, 401, 403)


class TokenUnavailable(Exception):
    """There is none; the message is a sentence that says why and what to do, without the secret."""


@dataclass(frozen=True)
class Credentials:
    """What a token is asked for with."""

    url: str
    client_id: str
    secret: str = field(repr=False)
    scope: str | None = None


class Tokens(AbstractTokenProvider):  # type: ignore[misc]
    """Gives the newest token; threads may share it."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._token = ""
        self._until_s = 0.0
        self._lock = threading.Lock()

    def token(self) -> str:
        """One that is valid for a while. Raises `TokenUnavailable`."""
        with self._lock:
            if time.monotonic() >= self._until_s:
                asked_s = time.monotonic()
                self._token, life_s = fetch_token(self._credentials)
                self._until_s = asked_s + KEPT_SHARE * life_s
            return self._token


def fetch_token(credentials: Credentials) -> tuple[str, float]:
    """A new token, and for how many seconds it is good. Raises `TokenUnavailable`."""
    where = f"the token endpoint {_shown(credentials.url)}"
    paths = ssl.get_default_verify_paths()  # this machine's, as Kafka's clients have it
    form = {"grant_type": "client_credentials"} | ({"scope": credentials.scope} if credentials.scope else {})
    try:
        answer = requests.post(
            credentials.url,
            data=form,
            auth=partial(_as_client, credentials),  # and not what a netrc file may say of that host
            timeout=TIMEOUT_S,
            verify=paths.cafile or paths.capath or True,
            allow_redirects=False,  # the secret is for that URL
        )
        told: Any = answer.json() if "json" in answer.headers.get("content-type", "") else {}
    except (requests.RequestException, OSError, ValueError) as error:
        raise TokenUnavailable(
            f"{where} does not answer ({type(error).__name__}): "
            "look at sasl.oauthbearer.token.endpoint.url in the client-config file"
        ) from error
    told = told if isinstance(told, Mapping) else {}
    if answer.status_code in _REFUSED:
        words = told.get("error_description") or told.get("error") or f"status {answer.status_code}"
        raise TokenUnavailable(
            f"{where} gives the client {credentials.client_id} no token ({_without(str(words), credentials)}): "
            "look at clientId, clientSecret and scope in sasl.jaas.config of the client-config file"
        )
    token = told.get("access_token")
    if answer.status_code != requests.codes.ok or not isinstance(token, str) or not token:
        raise TokenUnavailable(
            f"{where} answers with status {answer.status_code} and no access_token: "
            "look at sasl.oauthbearer.token.endpoint.url in the client-config file"
        )
    life = told.get("expires_in")
    return token, float(life) if isinstance(life, int | float) and life > 0 else _UNSTATED_LIFE_S


def _as_client(credentials: Credentials, request: requests.PreparedRequest) -> requests.PreparedRequest:
    """HTTP Basic authentication in UTF-8, as Kafka's clients have it; the library's own is Latin-1."""
    pair = b64encode(f"{credentials.client_id}:{credentials.secret}".encode()).decode()
    request.headers["Authorization"] = f"Basic {pair}"
    return request


@lru_cache(maxsize=8)
def token_provider(credentials: Credentials | None) -> Tokens | None:
    """The one that gives this process its tokens for these credentials."""
    return None if credentials is None else Tokens(credentials)


def _shown(url: str) -> str:
    """A URL without what may be secret in it."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"


def _without(words: str, credentials: Credentials) -> str:
    return " ".join(words.replace(credentials.secret, "<redacted>").split())[:200]
