"""One judge for a session of several processes: who comes first starts it, and it ends with the session."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.api import OTHER_COMMAND
from fencepost.judges.door import Door, judge_behind
from fencepost.judges.lifetime import VARIABLE

STAND_IN = """
import os, sys
with open(os.environ["JUDGES"], "a") as judges:
    print(sys.argv[1:], file=judges)
print("listening", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def judges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each judge that was started writes a line there."""
    command = tmp_path / "judge.py"
    command.write_text(STAND_IN)
    monkeypatch.setenv(OTHER_COMMAND, f"{sys.executable} {command}")
    monkeypatch.setenv("JUDGES", str(tmp_path / "judges"))
    monkeypatch.delenv(VARIABLE, raising=False)
    return tmp_path / "judges"


@pytest.fixture
def door(judges: Path) -> Iterator[Door]:
    opened = Door()
    yield opened
    opened.close()


def seen_behind(path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The judge that another process of the session would ask."""
    with monkeypatch.context() as elsewhere:
        elsewhere.delenv(VARIABLE, raising=False)
        with judge_behind(path):
            return os.environ[VARIABLE]


def test_a_door_that_nobody_comes_to_starts_nothing(door: Door, judges: Path) -> None:
    door.close()
    assert not judges.exists()


def test_all_who_come_share_one_judge(door: Door, judges: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert seen_behind(door.path, monkeypatch) == seen_behind(door.path, monkeypatch)
    assert len(judges.read_text().splitlines()) == 1


def test_the_judge_ends_with_its_door(door: Door, judges: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen_behind(door.path, monkeypatch)
    door.close()
    assert not door.path.exists()
    assert VARIABLE not in os.environ


def test_behind_a_door_that_is_gone_one_has_a_judge_of_ones_own(
    judges: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert seen_behind(tmp_path / "no door", monkeypatch)
    assert len(judges.read_text().splitlines()) == 1
