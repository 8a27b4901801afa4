"""The wheel has every file of the packages, under one import root."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.support.built_wheel import ROOMS, ROOT, build_wheel

pytestmark = pytest.mark.processes

INSIDE = ("fencepost", *ROOMS)
NOT_IN_WHEEL = {"tests", "benchmarks", "tools", "examples"}


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The files in the wheel."""
    with ZipFile(build_wheel(tmp_path_factory.mktemp("wheel"))) as wheel:
        return wheel.namelist()


def files_in_git() -> Iterator[Path]:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True)
    yield from (Path(name) for name in listing.stdout.split("\0") if name and (ROOT / name).exists())


def test_the_wheel_has_one_import_root(names: list[str]) -> None:
    roots = {name.partition("/")[0] for name in names}
    assert {root for root in roots if not root.endswith(".dist-info")} == {"fencepost"}


def test_every_file_of_the_rooms_is_in_the_wheel(names: list[str]) -> None:
    expected = {
        str(path if path.parts[0] == "fencepost" else Path("fencepost/_rooms", path))
        for path in files_in_git()
        if path.parts[0] in INSIDE
    }
    assert len(expected) > 300
    assert sorted(expected - set(names)) == []


def test_every_room_is_in_the_wheel() -> None:
    packages = {
        path.parts[0] for path in files_in_git() if path.name == "__init__.py" and len(path.parts) == 2
    }
    assert packages - NOT_IN_WHEEL == set(INSIDE)
