"""How a token is asked for, and what is told where none is given: on a server of our own."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from harness.wire.tokens import Credentials, Tokens, TokenUnavailable, fetch_token, token_provider
from tests.support.token_server import TokenServer

ID, SECRET = "ann:lee", "schlüssel/+="


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenServer]:
    with closing(TokenServer(tmp_path_factory.mktemp("tokens"), ID, SECRET)) as server:
        yield server


@pytest.fixture
def right(server: TokenServer) -> Credentials:
    return Credentials(f"{server.url}/token", ID, SECRET, "kafka")


def test_a_token_comes_with_its_life(right: Credentials) -> None:
    token, life_s = fetch_token(right)
    assert token.count(".") == 2
    assert life_s == 120


def test_a_token_is_kept_while_it_lasts(
    right: Credentials, server: TokenServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 1_000.0
    monkeypatch.setattr("harness.wire.tokens.time.monotonic", lambda: now_s)
    tokens, before = Tokens(right), len(server.asked)
    assert tokens.token() == tokens.token()
    now_s += 95
    tokens.token()
    assert len(server.asked) == before + 1
    now_s += 2  # past four fifths of two minutes
    tokens.token()
    assert len(server.asked) == before + 2
    assert server.asked[-1] == {"grant_type": "client_credentials", "scope": "kafka"}


def test_one_process_asks_once_for_the_same_credentials(right: Credentials) -> None:
    assert token_provider(right) is token_provider(replace(right))
    assert token_provider(None) is None


def test_a_wrong_secret_is_told_and_not_shown(right: Credentials) -> None:
    wrong = replace(right, secret="unknown client")  # which is what the server says
    with pytest.raises(
        TokenUnavailable, match=r"gives the client ann:lee no token \(<redacted>\): check"
    ) as failed:
        fetch_token(wrong)
    assert "unknown client" not in str(failed.value)
    assert SECRET not in repr(right)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://127.0.0.1:1/token?x=hidden", "the token endpoint http://127.0.0.1:1/token does not answer"),
        ("http://127.0.0.1:{port}/elsewhere", "no access_token"),
    ],
)
def test_an_endpoint_that_gives_none_is_told(
    right: Credentials, tmp_path: Path, url: str, words: str
) -> None:
    with closing(TokenServer(tmp_path, ID, SECRET)) as server:
        server.token = lambda: ""  # type: ignore[method-assign]
        port = server.url.rpartition(":")[2]
        with pytest.raises(TokenUnavailable, match=words) as failed:
            fetch_token(replace(right, url=url.format(port=port)))
    assert "hidden" not in str(failed.value)
