"""Build the library that is preloaded into brokers and workers, through which faults change clocks and disks."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from harness.common.errors import EnvironmentFailure
from harness.environment.cache import provide

SOURCE = Path(__file__).with_name("preload.c")
_LIBRARY = "preload.so"
_BUILD_TIMEOUT_S = 60.0
_ADVICE = "install one (on Debian: apt-get install gcc libc6-dev)"


def compiler() -> str:
    """Return the path of the C compiler. Raises `EnvironmentFailure` if the library cannot be built here."""
    if sys.platform != "linux":
        raise EnvironmentFailure("the clock and the disk of a process can be changed only on Linux")
    for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
        if name and (found := shutil.which(name)):
            return found
    raise EnvironmentFailure(f"there is no C compiler (cc, gcc, clang): {_ADVICE}")


def preload_library(cache: Path) -> Path:
    """Return the library, from the cache or built now, which takes a second. Raises `EnvironmentFailure`."""
    cc = compiler()
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    return provide(cache, f"preload-{digest}", lambda folder: _build(cc, folder / _LIBRARY)) / _LIBRARY


def _build(cc: str, library: Path) -> None:
    command = [cc, "-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl", "-pthread"]
    try:
        built = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_BUILD_TIMEOUT_S,
            check=False,
            encoding="utf-8",
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentFailure(f"{cc} did not build {SOURCE.name}: {error}") from error
    if built.returncode:
        reason = " ".join(built.stderr.split())[:300]
        raise EnvironmentFailure(f"{cc} could not build {SOURCE.name} ({reason}): {_ADVICE}")
