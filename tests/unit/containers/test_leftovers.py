"""Containers of runs that have certainly ended are removed. Docker is asked only if there is a note file."""

from pathlib import Path

import pytest

from harness.common.errors import EnvironmentFailure
from harness.containers import daemon
from harness.containers.daemon import LABEL
from harness.processes.guardian import new_mark

ENDED = "4194000.1.{}.00000000"


class Resource:
    """A container, a network or a volume."""

    def __init__(self, name: str, mark: str, removed: list[str]) -> None:
        self.name = name
        self.attrs = {"Config": {"Labels": {LABEL: mark}}}
        self._removed = removed

    def remove(self, **options: bool) -> None:
        self._removed.append(self.name)


class Collection:
    def __init__(self, *resources: Resource) -> None:
        self._resources = resources

    def list(self, **options: object) -> tuple[Resource, ...]:
        return self._resources


class Client:
    """A daemon with a container and a network of an ended run, and a container of a running run."""

    def __init__(self, ended_mark: str, running_mark: str) -> None:
        self.removed: list[str] = []
        self.containers = Collection(
            Resource("old", ended_mark, self.removed), Resource("new", running_mark, self.removed)
        )
        self.networks = Collection(Resource("net", ended_mark, self.removed))
        self.volumes = Collection()


def test_only_resources_of_ended_runs_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running_mark = new_mark()
    ended_mark = ENDED.format(running_mark.split(".")[2])
    client = Client(ended_mark, running_mark)
    monkeypatch.setattr(daemon, "connect", lambda: client)
    for mark in (ended_mark, running_mark):
        note_path = daemon.note_path(tmp_path, mark)
        note_path.parent.mkdir(exist_ok=True)
        note_path.touch()
    assert daemon.try_remove_abandoned(tmp_path) == ["container old", "network net"]
    assert client.removed == ["old", "net"]
    assert [path.name for path in (tmp_path / "docker").iterdir()] == [running_mark]


def test_an_error_of_docker_does_not_stop_a_run_but_is_raised_for_a_clean_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise EnvironmentFailure("Docker does not answer")

    monkeypatch.setattr(daemon, "connect", refuse)
    note_path = daemon.note_path(tmp_path, ENDED.format(new_mark().split(".")[2]))
    note_path.parent.mkdir()
    note_path.touch()
    assert daemon.try_remove_abandoned(tmp_path) == []
    with pytest.raises(EnvironmentFailure, match="does not answer"):
        daemon.remove_abandoned(tmp_path)
    assert note_path.exists()


def test_without_a_note_docker_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "connect", lambda: pytest.fail("Docker was asked"))
    assert daemon.try_remove_abandoned(tmp_path) == []
