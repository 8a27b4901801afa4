"""Have everything that a cluster is started from: found in the cache, or fetched and built side by side."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness.containers.daemon import connect, platform_of
from harness.environment import PreparedEnvironment
from harness.environment.archive import archive_flags, archive_path
from harness.environment.builder import Builder
from harness.environment.container_image import container_image
from harness.environment.java import java
from harness.environment.kafka import kafka, locate_kafka
from harness.environment.platforms import Platform
from harness.environment.postgres import postgres
from harness.environment.toxiproxy import (
    VERSION,
    built_for,
    built_toxiproxy,
    system_toxiproxy,
    toxiproxy,
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
    """Prepare; `say` is told of everything that takes time. Without a `postgres_choice` there is no PostgreSQL,
    without an `image_choice` no image for containers.

    Raises `UsageError` for a choice that cannot be, `FetchFailed`, or another `EnvironmentFailure`.
    """
    jars = locate_kafka(kafka_version, cache)
    found = java(java_choice)
    database = None if postgres_choice is None else postgres(postgres_choice)
    daemon = None if image_choice is None else connect()  # before anything is fetched for nothing
    # The builder is left first: an interruption ends what the threads wait for.
    with ThreadPoolExecutor(1, thread_name_prefix="prepare") as pool, Builder() as builder:
        target = Platform(*platform_of(daemon)) if daemon else Platform.here()
        proxies = pool.submit(_proxies, toxiproxy_choice, target, cache, say, builder)
        if not jars.class_path[0].parent.exists():
            say(f"fetching Kafka {kafka_version} into {cache} (46 MB, once)")
        distribution = kafka(kafka_version, cache, mirror=mirror)
        if not archive_path(found, distribution, cache).exists():
            say(f"making an archive of Kafka's classes for Java {found.version} (once)")
        flags = archive_flags(found, distribution, cache, builder=builder)
        image = (
            container_image(daemon, image_choice, distribution, cache, say)
            if daemon and image_choice
            else None
        )
        return PreparedEnvironment(
            distribution, found, proxies.result(), tuple(flags), cache, database, image
        )


def _proxies(
    choice: str, target: Platform, cache: Path, say: Callable[[str], None], builder: Builder
) -> Path:
    """For this machine, or for the containers of a daemon that is of another kind."""
    foreign = target != Platform.here()
    built = built_for(target, cache) if foreign else built_toxiproxy(cache, choice)
    here = choice not in ("auto", "bundled") or built.exists()
    if not here and (foreign or not (choice == "auto" and system_toxiproxy())):
        kind = f" for {target}" if foreign else ""
        say(f"building toxiproxy {VERSION}{kind} from its Go module (once)")
    if foreign:
        return toxiproxy_for(target, choice, cache, builder=builder)
    return toxiproxy(choice, cache, builder=builder)
