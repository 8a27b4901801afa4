"""A Docker daemon that cannot be used is an error in one sentence, which says what to do."""

import socket
from pathlib import Path

import pytest

from harness.common.errors import EnvironmentFailure, FaultFailed
from harness.containers.daemon import NoDocker, connect, refuse_remote_daemon, shorten, translate_errors


def test_an_error_without_a_daemon_says_to_start_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    with pytest.raises(NoDocker, match=r"no Docker daemon answers at unix.*start Docker, or name another"):
        connect()


def test_a_socket_that_an_ended_daemon_has_left_counts_as_no_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX) as daemon_socket:
        daemon_socket.bind(str(tmp_path / "docker.sock"))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    with pytest.raises(NoDocker, match="no Docker daemon answers"):
        connect()


@pytest.mark.parametrize(
    ("address", "remote"),
    [
        ("http+docker://localhost", False),  # a socket of this machine
        ("http+docker://localnpipe", False),
        ("http://127.0.0.1:2375", False),
        ("http+docker://ssh", True),  # as docker-py names every DOCKER_HOST=ssh://...
        ("http://10.0.0.7:2375", True),
    ],
)
def test_a_daemon_on_another_machine_is_refused(
    address: str, remote: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "ssh://ci@build-7")
    assert ("ssh://ci@build-7 is on another machine" in refuse_remote_daemon(address)) is remote


def test_an_error_of_docker_is_raised_as_the_requested_class_in_one_sentence() -> None:
    from docker.errors import APIError, DockerException

    message = r"^broker 1 could not be paused: Docker says: it is\s+not running$"
    with (
        pytest.raises(FaultFailed, match=message),
        translate_errors("broker 1 could not be paused", FaultFailed),
    ):
        raise APIError("409", explanation="it is\nnot running")
    with (
        pytest.raises(EnvironmentFailure, match="Docker does not answer: gone"),
        translate_errors("it could not be"),
    ):
        raise DockerException("gone")


def test_a_long_text_is_shortened_to_one_line_of_300_characters() -> None:
    assert shorten("a\n  b") == "a b"
    assert len(shorten("x" * 1000)) == 300
