"""The wheel in a new environment, run in a folder that has packages with the names of our rooms."""

import sys
import sysconfig
from pathlib import Path

from tests.support.built_wheel import build_wheel, make_user_project, output_of, run_isolated


def install_with_our_dependencies(parent: Path) -> Path:
    """Return the `bin` of a new environment that has the wheel, and that sees the dependencies of this one.

    A `.pth` file adds the folder of the dependencies. Python ignores the `.pth` files in that folder, one of which
    would add this repository.
    """
    wheel = build_wheel(parent)
    environment = parent / "environment"
    output_of(run_isolated(sys.executable, "-m", "venv", "--without-pip", environment, cwd=parent))
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    options = ("--quiet", "--no-deps", "--no-index", "--ignore-installed")
    output_of(
        run_isolated(
            sys.executable, "-P", "-m", "pip", "--python", environment, "install", *options, wheel, cwd=parent
        )
    )
    return environment / "bin"


def test_a_users_packages_may_have_the_names_of_our_rooms(tmp_path: Path) -> None:
    installed = install_with_our_dependencies(tmp_path)
    folder = make_user_project(tmp_path / "team")
    script = "import fencepost, importlib.util as u; print(fencepost.__file__, u.find_spec('harness'))"
    output = output_of(run_isolated(installed / "python", "-P", "-c", script, cwd=tmp_path))
    assert str(tmp_path / "environment") in output and output.split()[-1] == "None"
    pytest_output = output_of(
        run_isolated(
            installed / "python", "-m", "pytest", "-p", "no:cacheprovider", "test_team.py", cwd=folder
        )
    )
    assert "1 passed" in pytest_output
