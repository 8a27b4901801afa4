"""Download the jars of jars.lock into lib/, and compile the programs into build/: `python build.py`.

It needs Java 17 or newer, and the Python package jgo, which downloads from Maven Central (or uses the jars in ~/.m2).
If there is no javac, it downloads Eclipse's compiler and runs it with the installed java.

`python build.py --lock` resolves the jars again and writes jars.lock.
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
    "org.apache.kafka:kafka-streams:4.4.0",  # with kafka-clients, rocksdbjni, jackson, slf4j-api, lz4, snappy, zstd
    "org.slf4j:slf4j-simple:1.7.36",  # the version of slf4j-api that kafka-clients requires
)
COMPILER = "org.eclipse.jdt:ecj:3.43.0"
RELEASE = "17"


def fetch(maven: MavenContext, coordinates: str) -> Path:
    """Return the local jar: from ~/.m2, or downloaded into it."""
    group, artifact, version = coordinates.split(":")
    return maven.project(group, artifact).at_version(version).artifact().resolve()


def sha256(file: Path) -> str:
    """Return the sha256 of a file in hexadecimal."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def closure(maven: MavenContext) -> list[str]:
    """Return the roots and all their run-time dependencies."""
    jars = set(ROOTS)
    for root in ROOTS:
        group, artifact, version = root.split(":")
        pom = maven.project(group, artifact).at_version(version).pom()
        # The optional dependencies of a root are its own test libraries.
        _, nodes = maven.pom_dependency_list(pom, optional_depth=-1)
        jars |= {f"{node.dep.groupId}:{node.dep.artifactId}:{node.dep.version}" for node in nodes}
    names = [jar.rpartition(":")[0] for jar in jars]
    duplicates = sorted({name for name in names if names.count(name) > 1})
    if duplicates:
        sys.exit(f"the roots need two versions of {', '.join(duplicates)}: choose other versions of the ROOTS")
    return sorted(jars)


def write_lock(maven: MavenContext) -> None:
    """Resolve the jars and write the sha256 of each."""
    rows = [f"{jar} {sha256(fetch(maven, jar))}" for jar in [*closure(maven), COMPILER]]
    LOCK.write_text(
        "# Written by `python build.py --lock`: group:artifact:version sha256\n" + "\n".join(rows) + "\n"
    )


def read_lock() -> dict[str, str]:
    """Return the sha256 of each jar by its coordinates."""
    lines = LOCK.read_text().splitlines()
    return dict(line.split() for line in lines if line and not line.startswith("#"))


def jar_in_lib(coordinates: str) -> Path:
    """Return the path of a jar in lib/, which need not exist yet."""
    _, artifact, version = coordinates.split(":")
    return LIB / f"{artifact}-{version}.jar"


def provide(maven: MavenContext, coordinates: str, digest: str) -> Path:
    """Return the jar in lib/ after checking its sha256."""
    jar = jar_in_lib(coordinates)
    if not (jar.exists() and sha256(jar) == digest):
        source = fetch(maven, coordinates)
        actual = sha256(source)
        if actual != digest:
            sys.exit(f"{source} has the sha256 {actual}, but jars.lock has {digest}: delete the file and try again")
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
    process = subprocess.run([*compiler, *options, *sources], check=False)
    if process.returncode:
        sys.exit(f"{Path(compiler[0]).name} ended with status {process.returncode}")


def main() -> None:
    """Download and check the jars, and compile the programs."""
    maven = MavenContext()
    if "--lock" in sys.argv[1:]:
        write_lock(maven)
    lock = read_lock()
    LIB.mkdir(exist_ok=True)
    for old in set(LIB.glob("*.jar")) - set(map(jar_in_lib, lock)):
        old.unlink()  # the programs' class path is all of lib/
    jars = [provide(maven, name, digest) for name, digest in lock.items() if name != COMPILER]
    compile_programs(maven, lock, jars)
    programs = ", ".join(sorted(file.stem for file in HERE.glob("*.java")))
    sys.stdout.write(f"{len(jars)} jars in {LIB.name}/, {programs} in {BUILD.name}/\n")


if __name__ == "__main__":
    main()
