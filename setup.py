"""Where the packages lie in the wheel; everything else about the build is in pyproject.toml.

The rooms are top-level packages in the repository. In a user's environment their names (`reports`, `workloads`) would
clash with the user's own packages, so the wheel holds them in `fencepost/_rooms`. `fencepost/__main__.py` puts that
folder on the path.
"""

import sys

from setuptools import find_namespace_packages, setup

ROOMS = ("harness", "workloads", "nemeses", "checkers", "reports")

# An editable install points at the repository, where the rooms are top-level packages.
PREFIX = "" if "editable_wheel" in sys.argv else "fencepost._rooms."


def packages_of(room: str) -> list[str]:
    """Return the room and all packages in it; not each has an `__init__.py`."""
    return find_namespace_packages(include=[room, f"{room}.*"], exclude=["*.__pycache__"])


setup(
    packages=[
        *packages_of("fencepost"),
        *(PREFIX + package for room in ROOMS for package in packages_of(room)),
    ],
    package_dir={PREFIX + room: room for room in ROOMS},
)
