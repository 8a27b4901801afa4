"""A Docker that is not there, or does not let one in, is told in one sentence that says what to do."""

import socket
from pathlib import Path

import pytest

from harness.common.errors import EnvironmentFailure, FaultFailed
from harness.containers.daemon import NoDocker, connect, refuse_remote_daemon, shorten, translate_errors


def test_without_a_daemon_one_is_told_to_start_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    with pytest.raises(NoDocker, match=r"no Docker daemon answers at unix.*start Docker, or name another"):
        connect()


def test_a_daemon_that_has_ended_and_left_its_socket_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "docker.sock"))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    with pytest.raises(NoDocker, match="no Docker daemon answers"):
        connect()


@pytest.mark.parametrize(
    ("address", "away"),
    [
        ("http+docker://localhost", False),  # a socket of this machine
        ("http+docker://localnpipe", False),
        ("http://127.0.0.1:2375", False),
        ("http+docker://ssh", True),  # as docker-py names every DOCKER_HOST=ssh://...
        ("http://10.0.0.7:2375", True),
    ],
)
def test_a_daemon_on_another_machine_is_refused(
    address: str, away: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "ssh://ci@build-7")
    assert ("ssh://ci@build-7 is on another machine" in refuse_remote_daemon(address)) is away


def test_what_docker_refuses_is_one_sentence_of_the_kind_that_was_asked_for() -> None:
    from docker.errors import APIError, DockerException

    words = r"^broker 1 could not be paused: Docker says: it is\s+not running$"
    with (
        pytest.raises(FaultFailed, match=words),
        translate_errors("broker 1 could not be paused", FaultFailed),
    ):
        raise APIError("409", explanation="it is\nnot running")
    with (
        pytest.raises(EnvironmentFailure, match="Docker does not answer: gone"),
        translate_errors("it could not be"),
    ):
        raise DockerException("gone")


def test_words_are_one_line_and_bounded() -> None:
    assert shorten("a\n  b") == "a b"
    assert len(shorten("x" * 1000)) == 300
