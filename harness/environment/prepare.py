"""Prepare the parts from which a cluster is started: find them in the cache, or fetch and build them in parallel."""

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness.containers.daemon import connect, platform_of
from harness.environment import PreparedEnvironment, PreparedKafka
from harness.environment.cache import Builder, Platform
from harness.environment.container_image import container_image
from harness.environment.java import Java, archive_flags, find_java
from harness.environment.kafka import fetch_kafka, locate_kafka
from harness.environment.postgres import find_postgres
from harness.environment.toxiproxy import (
    VERSION,
    find_toxiproxy,
    system_toxiproxy,
    toxiproxy_binary,
    toxiproxy_binary_for,
    toxiproxy_for,
)


def prepare(
    kafka_version: str,
    java_choice: str,
    toxiproxy_choice: str,
    cache: Path,
    say: Callable[[str], None],
    *,
    mirror: str | None = None,
    postgres_choice: str | None = None,
    image_choice: str | None = None,
) -> PreparedEnvironment:
    """Find, fetch or build all parts.

    Args:
        say: Called with a progress message before a step that takes time.
        mirror: the URL of a Maven repository to use instead of Maven Central.
        postgres_choice: None: no PostgreSQL.
        image_choice: None: no container image.

    Raises:
        UsageError: a choice is not possible.
        FetchFailed: a part cannot be fetched.
        EnvironmentFailure: a part cannot be built.
    """
    java = find_java(java_choice)
    database = None if postgres_choice is None else find_postgres(postgres_choice)
    daemon = None if image_choice is None else connect()  # fail before anything is fetched
    # The builder is the inner context manager, so that an interruption first ends the processes that threads wait for.
    with ThreadPoolExecutor(1, thread_name_prefix="prepare") as pool, Builder() as builder:
        target = Platform(*platform_of(daemon)) if daemon else Platform.of_this_machine()
        proxies = pool.submit(_proxies, toxiproxy_choice, target, cache, say, builder)
        is_new = not _is_cached(kafka_version, cache)
        kafka = _kafka(kafka_version, java, cache, say, mirror)
        image = (
            container_image(daemon, image_choice, kafka.distribution, cache, say)
            if daemon and image_choice
            else None
        )
        return PreparedEnvironment(
            kafka.distribution,
            java,
            proxies.result(),
            kafka.archive_flags,
            cache,
            database,
            image,
            kafka_is_new=is_new,
        )


def prepare_upgrades(
    kafka_versions: Collection[str],
    java: Java,
    cache: Path,
    say: Callable[[str], None],
    *,
    mirror: str | None = None,
) -> dict[str, PreparedKafka]:
    """Find or fetch the versions of Kafka to which brokers are upgraded. Raises as `prepare` does."""
    return {version: _kafka(version, java, cache, say, mirror) for version in kafka_versions}


def _is_cached(version: str, cache: Path) -> bool:
    return locate_kafka(version, cache).class_path[0].parent.exists()


def _kafka(
    version: str, java: Java, cache: Path, say: Callable[[str], None], mirror: str | None
) -> PreparedKafka:
    """Find or fetch a version of Kafka."""
    if not _is_cached(version, cache):
        say(f"fetching Kafka {version} into {cache} (46 MB, once)")
    distribution = fetch_kafka(version, cache, mirror=mirror)
    return PreparedKafka(distribution, archive_flags(java, distribution, cache))


def _proxies(
    choice: str, target: Platform, cache: Path, say: Callable[[str], None], builder: Builder
) -> Path:
    """Return toxiproxy's server for this machine, or for containers of another platform."""
    other_platform = target != Platform.of_this_machine()
    built = toxiproxy_binary_for(target, cache) if other_platform else toxiproxy_binary(cache, choice)
    exists = choice not in ("auto", "bundled") or built.exists()
    if not exists and (other_platform or not (choice == "auto" and system_toxiproxy())):
        platform_words = f" for {target}" if other_platform else ""
        say(f"building toxiproxy {VERSION}{platform_words} from its Go module (once)")
    if other_platform:
        return toxiproxy_for(target, choice, cache, builder=builder)
    return find_toxiproxy(choice, cache, builder=builder)
