"""Build a root file system for Kafka in a container from parts of this machine, for users without an image registry.

Java is the one that comes with Fencepost, and Kafka's jars come from the cache. The few other programs (a shell, `cat`,
`tar`, iptables) are those of the machine, with the shared libraries that their loader names. So nothing is fetched. The
paths are those of Kafka's official image.
"""

import hashlib
import io
import shutil
import subprocess
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from harness.common.errors import EnvironmentFailure
from harness.environment.java import Java
from harness.environment.kafka import KafkaDistribution

JAVA_HOME = Path("/opt/java/openjdk")
JARS = Path("/opt/kafka/libs")
ARCHIVE = Path("/opt/kafka/broker.archive")
PROGRAMS = ("sh", "cat", "ls", "mkdir", "tar", "wc")
PACKET_FILTER = ("iptables", "iptables-save")
"""Included if the machine has them. A machine on which Docker runs does."""
_PLUGINS = ("/usr/lib/*/xtables", "/usr/lib64/xtables", "/usr/lib/xtables", "/lib/xtables")
_NAMES = ("libnss_dns.so.2", "libnss_files.so.2", "libresolv.so.2")
"""Libraries that the C library loads by name to look up hosts. Some systems do not have them as separate files."""
_LDD_TIMEOUT_S = 20.0
_ACCOUNTS = {
    "etc/passwd": b"root:x:0:0:root:/:/bin/sh\n",
    "etc/group": b"root:x:0:\n",
    "etc/nsswitch.conf": b"hosts: files dns\n",
}


def has_packet_filter() -> bool:
    """Return whether an image that is built here can drop packets."""
    return all(shutil.which(name, path=_path()) for name in PACKET_FILTER)


def digest_of(java: Java, kafka: KafkaDistribution) -> str:
    """Return ten hex digits that depend on the content of the file system."""
    programs = [Path(path).resolve() for name in (*PROGRAMS, *PACKET_FILTER) if (path := _which(name))]
    parts = [
        java.release,
        *(jar.name for jar in kafka.class_path),
        *(f"{program} {program.stat().st_size}" for program in programs),
    ]
    return hashlib.sha256(
        "\n".join([*parts, Path(__file__).read_text(encoding="utf-8")]).encode()
    ).hexdigest()[:10]


def write_rootfs(file: Path, java: Java, kafka: KafkaDistribution, archive: Path | None) -> None:
    """Write the file system as a tar archive. Raises `EnvironmentFailure` if the machine lacks a program.

    Args:
        archive: the archive of the brokers' classes, or None. It fits although the paths of jars and Java differ in the
            image, because the JVM compares names, sizes and times of the files, but not their common folder.
    """
    missing = [name for name in PROGRAMS if not _which(name)]
    if missing:
        raise EnvironmentFailure(
            f"no image can be built of this machine's parts, because it has no {', '.join(missing)}: "
            "name an image with --set image=NAME"
        )
    with tarfile.open(file, "w") as tar:
        for folder in ("tmp", "etc", "proc", "sys", "dev", "run", "fencepost"):
            info = tarfile.TarInfo(folder)
            info.type, info.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            tar.addfile(info)
        for name, content in _ACCOUNTS.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o644
            tar.addfile(info, io.BytesIO(content))
        written: set[str] = set()
        archive_entry = [(str(ARCHIVE), archive)] if archive else []
        for path, source in (*_files(java, kafka), *archive_entry):
            if path not in written:
                written.add(path)
                _add(tar, path, source)


def _files(java: Java, kafka: KafkaDistribution) -> Iterator[tuple[str, Path]]:
    """Yield the path of each file in the image, and its path on this machine."""
    binaries = []
    for source in sorted(java.home.rglob("*")):
        if source.is_file():
            yield str(JAVA_HOME / source.relative_to(java.home)), source
            if source.name == "java" or ".so" in source.suffixes:
                binaries.append(source)
    for jar in kafka.class_path:
        yield str(JARS / jar.name), jar
    for name in (*PROGRAMS, *PACKET_FILTER):
        if path := _which(name):
            binaries.append(Path(path))
            yield f"/bin/{name}", Path(path)
    for pattern in _PLUGINS:
        for plugin in sorted(Path("/").glob(f"{pattern[1:]}/*.so")):
            binaries.append(plugin)
            yield str(plugin), plugin
    for library in _closure(binaries, inside=java.home):
        yield str(library), library


def _closure(binaries: Sequence[Path], *, inside: Path) -> Iterator[Path]:
    """Yield the libraries that the loader names for the binaries, without those inside the folder `inside`."""
    linked = set(_libraries(binaries))
    candidates = {library.parent / name for library in linked for name in _NAMES}
    loaded = [path for path in candidates if path.exists()]
    for library in sorted({*linked, *loaded, *_libraries(loaded)}):
        if inside not in library.parents:
            yield library


def _libraries(binaries: Iterable[Path]) -> Iterator[Path]:
    command = ["ldd", *map(str, binaries)]
    if len(command) == 1:
        return
    try:
        answer = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_LDD_TIMEOUT_S,
            check=False,
            encoding="utf-8",
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentFailure(
            f"no image can be built of this machine's parts, because ldd does not run ({error}): "
            "name an image with --set image=NAME"
        ) from error
    for line in answer.stdout.splitlines():
        # `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f...)`, `/lib64/ld-linux-x86-64.so.2 (0x00007f...)`
        words = line.partition("=>")[2].split() or line.split()
        if line[:1].isspace() and words and words[0].startswith("/"):
            yield Path(words[0])


def _add(tar: tarfile.TarFile, path: str, source: Path) -> None:
    real = source.resolve()
    info = tar.gettarinfo(real, arcname=path.lstrip("/"))
    info.uid = info.gid = 0
    info.uname = info.gname = "root"
    with real.open("rb") as content:
        tar.addfile(info, content)


def _which(name: str) -> str | None:
    return shutil.which(name, path=_path())


def _path() -> str:
    return "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin"
