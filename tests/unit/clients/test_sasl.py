"""Tokens are fetched from a server of the test. If there is no token, the error says why."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from harness.wire.protocol import Tokens, TokenUnavailable, fetch_token, token_provider
from harness.wire.security import Credentials
from tests.support.token_server import TokenServer

pytestmark = pytest.mark.processes

ID, SECRET = "ann:lee", "schlüssel/+="


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenServer]:
    with closing(TokenServer(tmp_path_factory.mktemp("tokens"), ID, SECRET)) as server:
        yield server


@pytest.fixture
def credentials(server: TokenServer) -> Credentials:
    return Credentials(f"{server.url}/token", ID, SECRET, "kafka")


def test_a_token_has_a_lifetime(credentials: Credentials) -> None:
    token, life_s = fetch_token(credentials)
    assert token.count(".") == 2
    assert life_s == 120


def test_a_token_is_used_again_for_four_fifths_of_its_lifetime(
    credentials: Credentials, server: TokenServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 1_000.0
    monkeypatch.setattr("harness.wire.protocol.time.monotonic", lambda: now_s)
    tokens, before = Tokens(credentials), len(server.requests)
    assert tokens.token() == tokens.token()
    now_s += 95
    tokens.token()
    assert len(server.requests) == before + 1
    now_s += 2  # past four fifths of two minutes
    tokens.token()
    assert len(server.requests) == before + 2
    assert server.requests[-1] == {"grant_type": "client_credentials", "scope": "kafka"}


def test_a_process_has_one_provider_for_the_same_credentials(credentials: Credentials) -> None:
    assert token_provider(credentials) is token_provider(replace(credentials))
    assert token_provider(None) is None


def test_the_error_of_a_wrong_secret_does_not_show_it(credentials: Credentials) -> None:
    wrong = replace(credentials, secret="unknown client")  # the server repeats this text in its response
    with pytest.raises(
        TokenUnavailable, match=r"gives the client ann:lee no token \(<redacted>\): check"
    ) as failed:
        fetch_token(wrong)
    assert "unknown client" not in str(failed.value)
    assert SECRET not in repr(credentials)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://127.0.0.1:1/token?x=hidden", "the token endpoint http://127.0.0.1:1/token does not answer"),
        ("http://127.0.0.1:{port}/elsewhere", "no access_token"),
    ],
)
def test_an_endpoint_without_a_token_is_an_error(
    credentials: Credentials, tmp_path: Path, url: str, message: str
) -> None:
    with closing(TokenServer(tmp_path, ID, SECRET)) as server:
        server.token = lambda: ""  # type: ignore[method-assign]
        port = server.url.rpartition(":")[2]
        with pytest.raises(TokenUnavailable, match=message) as failed:
            fetch_token(replace(credentials, url=url.format(port=port)))
    assert "hidden" not in str(failed.value)
