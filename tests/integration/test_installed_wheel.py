"""The wheel in a new environment, run in a folder whose own packages have the names of our rooms."""

import sys
import sysconfig
from pathlib import Path

from tests.support.built_wheel import build_wheel, call, done, users_folder


def installed_beside_our_dependencies(place: Path) -> Path:
    """Return the `bin` of a new environment that has the wheel, and that sees the dependencies of this one.

    A `.pth` file adds the folder of the dependencies. Python ignores the `.pth` files in that folder, one of which
    would add this repository.
    """
    wheel = build_wheel(place)
    new = place / "environment"
    done(call(sys.executable, "-m", "venv", "--without-pip", new, cwd=place))
    (packages,) = new.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    options = ("--quiet", "--no-deps", "--no-index", "--ignore-installed")
    done(call(sys.executable, "-P", "-m", "pip", "--python", new, "install", *options, wheel, cwd=place))
    return new / "bin"


def test_a_users_packages_and_our_rooms_may_have_the_same_names(tmp_path: Path) -> None:
    installed = installed_beside_our_dependencies(tmp_path)
    folder = users_folder(tmp_path / "team")
    where = "import fencepost, importlib.util as u; print(fencepost.__file__, u.find_spec('harness'))"
    found = done(call(installed / "python", "-P", "-c", where, cwd=tmp_path))
    assert str(tmp_path / "environment") in found and found.split()[-1] == "None"
    tested = done(
        call(installed / "python", "-m", "pytest", "-p", "no:cacheprovider", "test_team.py", cwd=folder)
    )
    assert "1 passed" in tested
