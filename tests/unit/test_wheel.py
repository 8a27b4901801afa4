"""What the wheel takes along: every file that the rooms read, beside their Python."""

import subprocess
import tomllib
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[2]
SETUPTOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]


def in_git() -> list[Path]:
    told = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True)
    return [Path(name) for name in told.stdout.split("\0") if name]


def test_every_file_of_the_rooms_is_in_the_wheel() -> None:
    rooms = SETUPTOOLS["packages"]["find"]["include"]
    (taken,) = SETUPTOOLS["package-data"].values()
    inside = [path for path in in_git() if any(fnmatch(path.parts[0], room) for room in rooms)]
    beside = [path for path in inside if path.suffix != ".py"]
    assert len(beside) > 20
    assert [str(path) for path in beside if not any(fnmatch(path.name, one) for one in taken)] == []


def test_every_room_is_in_the_wheel() -> None:
    rooms = SETUPTOOLS["packages"]["find"]["include"]
    apart = ("tests", "bench", "tools", "examples")
    packages = {path.parts[0] for path in in_git() if path.name == "__init__.py" and len(path.parts) == 2}
    assert sorted(one for one in packages - {*apart} if not any(fnmatch(one, room) for room in rooms)) == []
