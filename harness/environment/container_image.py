"""Find, pull or build the container image of the brokers.

`auto` uses the official image of the Kafka version if it exists or can be pulled, and builds one otherwise. `bundled`
builds one. Anything else is the name of an image that has Java and Kafka at the same paths as the official one.
"""

import logging
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.common.errors import EnvironmentFailure, FetchFailed
from harness.containers.daemon import platform_of, shorten, translate_errors
from harness.environment.archive import archive_path, make_archive
from harness.environment.builder import Builder
from harness.environment.cache import locked
from harness.environment.java import bundled_java
from harness.environment.kafka import KafkaDistribution
from harness.environment.platforms import Platform
from harness.environment.rootfs import JAVA_HOME, digest_of, has_packet_filter, write_rootfs

if TYPE_CHECKING:
    from docker import DockerClient

_log = logging.getLogger(__name__)

OFFICIAL = "apache/kafka:{version}"
BUILT = "fencepost-kafka:{version}-{digest}"
PACKET_FILTER = "dev.fencepost.packet-filter"
"""The label of an image that has iptables."""
ARCHIVED = "dev.fencepost.archive"
_DEFAULT_JAVA = (
    17  # assumed if the image does not state its Java version; it is the oldest that Kafka 4 needs
)
_FEATURE = re.compile(r"(?:jdk-?)?(\d+)")


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
        drops_packets=labels.get(PACKET_FILTER) == "yes",
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
        f"LABEL {PACKET_FILTER}={_yes_or_no(has_packet_filter())} {ARCHIVED}={_yes_or_no(archive is not None)}",
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
