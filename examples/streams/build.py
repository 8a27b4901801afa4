"""Fetch the jars of jars.lock into lib/, and compile the programs into build/: `python build.py`.

It needs the Python package jgo, which resolves and fetches from Maven Central (or takes what ~/.m2 has), and Java 17
or newer. Where there is no javac, Eclipse's compiler is fetched and run by the java that is there.

`python build.py --lock` resolves the jars anew and writes jars.lock.
"""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from jgo.maven import MavenContext

HERE = Path(__file__).parent
LOCK, LIB, BUILD = HERE / "jars.lock", HERE / "lib", HERE / "build"
ROOTS = (
    "org.apache.kafka:kafka-streams:4.3.1",  # with kafka-clients, rocksdbjni, jackson, slf4j-api, lz4, snappy, zstd
    "org.slf4j:slf4j-simple:1.7.36",  # the version of slf4j-api that kafka-clients requires
)
COMPILER = "org.eclipse.jdt:ecj:3.43.0"
RELEASE = "17"


def fetched(maven: MavenContext, coordinates: str) -> Path:
    """Return the local jar: from ~/.m2, or downloaded into it."""
    group, artifact, version = coordinates.split(":")
    return maven.project(group, artifact).at_version(version).artifact().resolve()


def sha256(file: Path) -> str:
    """Return the sha256 of a file in hexadecimal."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def closure(maven: MavenContext) -> list[str]:
    """Return the roots and all their run-time dependencies."""
    found = set(ROOTS)
    for root in ROOTS:
        group, artifact, version = root.split(":")
        pom = maven.project(group, artifact).at_version(version).pom()
        _, nodes = maven.pom_dependency_list(pom)
        found |= {f"{one.dep.groupId}:{one.dep.artifactId}:{one.dep.version}" for one in nodes}
    names = [one.rpartition(":")[0] for one in found]
    twice = sorted({one for one in names if names.count(one) > 1})
    if twice:
        sys.exit(f"two versions of {', '.join(twice)}: choose roots that agree")
    return sorted(found)


def write_lock(maven: MavenContext) -> None:
    """Resolve the jars and write the sha256 of each."""
    rows = [f"{one} {sha256(fetched(maven, one))}" for one in [*closure(maven), COMPILER]]
    LOCK.write_text(
        "# Written by `python build.py --lock`: group:artifact:version sha256\n" + "\n".join(rows) + "\n"
    )


def pinned() -> dict[str, str]:
    """Return the sha256 of each jar by its coordinates."""
    lines = LOCK.read_text().splitlines()
    return dict(line.split() for line in lines if line and not line.startswith("#"))


def provide(maven: MavenContext, coordinates: str, wanted: str) -> Path:
    """Return the jar in lib/ after checking its sha256."""
    _, artifact, version = coordinates.split(":")
    jar = LIB / f"{artifact}-{version}.jar"
    if not (jar.exists() and sha256(jar) == wanted):
        source = fetched(maven, coordinates)
        found = sha256(source)
        if found != wanted:
            sys.exit(f"{source} has the sha256 {found}, and jars.lock says {wanted}")
        shutil.copyfile(source, jar)
    return jar


def compile_programs(maven: MavenContext, lock: dict[str, str], jars: list[Path]) -> None:
    """Compile every Java file of this folder into build/."""
    shutil.rmtree(BUILD, ignore_errors=True)
    sources = sorted(map(str, HERE.glob("*.java")))
    options = ["-d", str(BUILD), "-classpath", ":".join(map(str, jars)), "--release", RELEASE]
    javac, java = shutil.which("javac"), shutil.which("java")
    if javac:
        compiler = [javac, "-Xlint:all,-processing"]
    elif java:
        compiler = [java, "-jar", str(provide(maven, COMPILER, lock[COMPILER])), "-warn:none"]
    else:
        sys.exit("there is no java on the PATH: install Java 17 or newer")
    ended = subprocess.run([*compiler, *options, *sources], check=False)
    if ended.returncode:
        sys.exit(f"{Path(compiler[0]).name} ended with status {ended.returncode}")


def main() -> None:
    """Fetch, check and compile."""
    maven = MavenContext()
    if "--lock" in sys.argv[1:]:
        write_lock(maven)
    lock = pinned()
    LIB.mkdir(exist_ok=True)
    jars = [provide(maven, one, digest) for one, digest in lock.items() if one != COMPILER]
    compile_programs(maven, lock, jars)
    programs = ", ".join(sorted(file.stem for file in HERE.glob("*.java")))
    sys.stdout.write(f"{len(jars)} jars in {LIB.name}/, {programs} in {BUILD.name}/\n")


if __name__ == "__main__":
    main()
