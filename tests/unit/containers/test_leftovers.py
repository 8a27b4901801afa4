"""What runs have left is removed if they are certainly over, and Docker is asked only where there is a note."""

from pathlib import Path

import pytest

from harness.common.errors import EnvironmentFailure
from harness.containers import leftovers
from harness.containers.daemon import LABEL
from harness.processes.marks import new_mark

DEAD = "4194000.1.{}.00000000"


class Thing:
    """A container, a network or a volume."""

    def __init__(self, name: str, mark: str, gone: list[str]) -> None:
        self.name = name
        self.attrs = {"Config": {"Labels": {LABEL: mark}}}
        self._gone = gone

    def remove(self, **how: bool) -> None:
        self._gone.append(self.name)


class Room:
    def __init__(self, *things: Thing) -> None:
        self._things = things

    def list(self, **how: object) -> tuple[Thing, ...]:
        return self._things


class Client:
    """A daemon with a container of each of two runs, and a network."""

    def __init__(self, dead: str, living: str) -> None:
        self.gone: list[str] = []
        self.containers = Room(Thing("old", dead, self.gone), Thing("new", living, self.gone))
        self.networks = Room(Thing("net", dead, self.gone))
        self.volumes = Room()


def test_a_sweep_removes_what_dead_runs_left_and_nothing_of_living_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    living = new_mark()
    dead = DEAD.format(living.split(".")[2])
    client = Client(dead, living)
    monkeypatch.setattr(leftovers, "connect", lambda: client)
    for mark in (dead, living):
        note_path = leftovers.note_path(tmp_path, mark)
        note_path.parent.mkdir(exist_ok=True)
        note_path.touch()
    assert leftovers.try_remove_abandoned(tmp_path) == ["container old", "network net"]
    assert client.gone == ["old", "net"]
    assert [one.name for one in (tmp_path / "docker").iterdir()] == [living]


def test_a_docker_that_refuses_keeps_no_run_from_starting_and_is_told_to_who_cleans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise EnvironmentFailure("Docker does not answer")

    monkeypatch.setattr(leftovers, "connect", refuse)
    note_path = leftovers.note_path(tmp_path, DEAD.format(new_mark().split(".")[2]))
    note_path.parent.mkdir()
    note_path.touch()
    assert leftovers.try_remove_abandoned(tmp_path) == []
    with pytest.raises(EnvironmentFailure, match="does not answer"):
        leftovers.remove_abandoned(tmp_path)
    assert note_path.exists()


def test_without_a_note_docker_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "connect", lambda: pytest.fail("it was asked"))
    assert leftovers.try_remove_abandoned(tmp_path) == []
