"""Find, pull or build the container image of the brokers.

Java is the one that comes with Fencepost, and Kafka's jars come from the cache. The few other programs (a shell, `cat`,
`tar`, iptables) are those of the machine, with the shared libraries that their loader names. So nothing is fetched. The
paths are those of Kafka's official image.

`auto` uses the official image of the Kafka version if it exists or can be pulled, and builds one otherwise. `bundled`
builds one. Anything else is the name of an image that has Java and Kafka at the same paths as the official one.
"""

import hashlib
import io
import logging
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.common.errors import EnvironmentFailure, FetchFailed
from harness.containers.daemon import platform_of, shorten, translate_errors
from harness.environment.cache import Builder, Platform, locked
from harness.environment.java import Java, archive_path, bundled_java, make_archive
from harness.environment.kafka import KafkaDistribution

if TYPE_CHECKING:
    from docker import DockerClient

_log = logging.getLogger(__name__)

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
OFFICIAL = "apache/kafka:{version}"
BUILT = "fencepost-kafka:{version}-{digest}"
PACKETS_LABEL = "dev.fencepost.packet-filter"
"""The label of an image that has iptables."""
ARCHIVED = "dev.fencepost.archive"
_DEFAULT_JAVA = (
    17  # assumed if the image does not state its Java version; it is the oldest that Kafka 4 needs
)
_FEATURE = re.compile(r"(?:jdk-?)?(\d+)")


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


@dataclass(frozen=True)
class ContainerImage:
    """An image that the Docker daemon has."""

    name: str
    java_version: int  # the feature release
    drops_packets: bool  # it has iptables
    archive: bool  # it has an archive of the brokers' classes, which fits the jars in the order of the lock
    origin: str  # for messages: official, built here, or named


def container_image(
    client: "DockerClient",
    choice: str,
    kafka: KafkaDistribution,
    cache: Path,
    say: Callable[[str], None],
    *,
    official: str = OFFICIAL,
) -> ContainerImage:
    """Find, pull or build the image.

    Args:
        kafka: the jars; they must exist only if an image is built.
        say: Called with a progress message before a step that takes time.

    Raises:
        FetchFailed: the named image does not exist and cannot be pulled.
        EnvironmentFailure: no image can be built.
    """
    if choice == "bundled":
        return _find_or_build(client, kafka, cache, say)
    name = official.format(version=kafka.version) if choice == "auto" else choice
    try:
        return _find_or_pull(client, name, "official" if choice == "auto" else "named", say)
    except FetchFailed as error:
        if choice != "auto":
            raise
        say(f"{error}; building an image of this machine's parts instead")
        return _find_or_build(client, kafka, cache, say)


def _find_or_pull(
    client: "DockerClient", name: str, origin: str, say: Callable[[str], None]
) -> ContainerImage:
    """Return an image by name, and pull it if Docker does not have it. Raises `FetchFailed`."""
    image = _find(client, name)
    if image is None:
        say(f"pulling the image {name} (once)")
        refusal = f"the image {name} does not exist, and cannot be pulled"
        with translate_errors(refusal, FetchFailed):
            for step in client.api.pull(name, stream=True, decode=True):
                if "error" in step:
                    raise FetchFailed(f"{refusal}: {shorten(step['error'])}")
        image = _find(client, name)
    if image is None:
        raise FetchFailed(
            f"the image {name} was pulled, but Docker does not have it: name another with --set image=NAME"
        )
    return _describe(image, name, origin)


def _find(client: "DockerClient", name: str) -> Any | None:
    from docker.errors import ImageNotFound

    with translate_errors(f"Docker did not say whether it has the image {name}"):
        try:
            return client.images.get(name)
        except ImageNotFound:
            return None


def _describe(image: Any, name: str, origin: str) -> ContainerImage:
    config = image.attrs.get("Config") or {}
    environment = dict(variable.partition("=")[::2] for variable in config.get("Env") or [])
    feature = _FEATURE.match(environment.get("JAVA_VERSION", ""))
    labels = config.get("Labels") or {}
    return ContainerImage(
        name=name,
        java_version=int(feature[1]) if feature else _DEFAULT_JAVA,
        drops_packets=labels.get(PACKETS_LABEL) == "yes",
        archive=labels.get(ARCHIVED) == "yes",
        origin=origin,
    )


def _find_or_build(
    client: "DockerClient", kafka: KafkaDistribution, cache: Path, say: Callable[[str], None]
) -> ContainerImage:
    """Return the image that is built from this machine's parts. Build it if needed. Raises `EnvironmentFailure`."""
    machine, docker = Platform.of_this_machine(), Platform(*platform_of(client))
    if machine != docker:
        raise EnvironmentFailure(
            f"no image can be built of this machine's parts, because they are for {machine}, but Docker's containers "
            f"run on {docker}: name an image with --set image=NAME"
        )
    java = bundled_java()
    name = BUILT.format(version=kafka.version, digest=digest_of(java, kafka))
    with locked(cache, name.replace(":", "-")):
        if _find(client, name) is None:
            say(f"building the image {name} of this machine's parts (once)")
            _build(client, name, kafka, cache)
    image = _find(client, name)
    if image is None:
        raise EnvironmentFailure(
            f"the image {name} was built, but Docker does not have it: check which Docker daemon DOCKER_HOST names"
        )
    return _describe(image, name, "built here")


def _build(client: "DockerClient", name: str, kafka: KafkaDistribution, cache: Path) -> None:
    java = bundled_java()
    archive: Path | None = archive_path(java, kafka, cache)
    try:
        with Builder() as builder:
            make_archive(java, kafka, cache, builder)
    except EnvironmentFailure as error:
        _log.warning(
            "the image has no archive of the brokers' classes, so brokers start more slowly: %s", error
        )
        archive = None
    repository, _, tag = name.partition(":")
    changes = [
        f"ENV JAVA_HOME={JAVA_HOME} JAVA_VERSION={java.version} PATH=/bin",
        f"LABEL {PACKETS_LABEL}={_yes_or_no(has_packet_filter())} {ARCHIVED}={_yes_or_no(archive is not None)}",
    ]
    with tempfile.NamedTemporaryFile(prefix="fencepost-image-", suffix=".tar") as file:
        write_rootfs(Path(file.name), java, kafka, archive)
        with translate_errors(f"the image {name} could not be made"):
            answer = client.api.import_image_from_file(
                file.name, repository=repository, tag=tag, changes=changes
            )
    if '"error"' in str(answer):
        raise EnvironmentFailure(f"the image {name} could not be made: Docker says: {shorten(answer)}")


def _yes_or_no(value: bool) -> str:
    return "yes" if value else "no"
