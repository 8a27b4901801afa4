"""Prepare the parts of a cluster: find or download its parts, and validate the broker settings."""

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from fencepost import registry
from fencepost.checks import spark
from harness.cluster import PRELOADED, Ability
from harness.cluster.config import TOOL, check_settings, documented_settings
from harness.cluster.kinds.registry import CLUSTERS
from harness.common.errors import EnvironmentFailure, require_extra
from harness.containers.daemon import try_remove_abandoned
from harness.environment import java
from harness.environment.cache import Builder
from harness.environment.client_parts import fetch_client
from harness.environment.container_image import PACKETS_LABEL
from harness.environment.java import broker_command, find_java, require_in_process
from harness.environment.preload import preload_library
from harness.environment.prepare import prepare, prepare_upgrades
from harness.processes.guardian import sweep_leftovers
from harness.settings.kinds import ClientChoice
from harness.settings.options import Options

if TYPE_CHECKING:
    from harness.environment import PreparedEnvironment

log = logging.getLogger(__name__)


def prepare_cluster(
    options: Options,
    cache: Path,
    say: Callable[[str], None],
    *,
    clients: Sequence[str],
    stores: Collection[str] = (),
    faults: Collection[str] = (),
    upgrades: Collection[str] = (),
) -> "PreparedEnvironment":
    """Find or download the parts of a cluster, and validate the broker settings. Raises `FencepostError`.

    Args:
        clients: Names of the clients that the workers use.
        stores: Kinds of database that the pipeline uses.
        faults: Names of the planned faults.
        upgrades: The other versions of Kafka that brokers run later.
    """
    if "postgres" in stores:
        require_extra("a workload with tables in PostgreSQL", "psycopg")
    if "java" in clients:  # fail before anything is downloaded
        require_in_process(find_java(options.java))
    preload = _preload_library(cache, faults)
    pinned = ClientChoice.of(options.client).pinned
    client = fetch_client(pinned, cache, say, mirror=options.mirror) if pinned else None
    ready = prepare(
        *(options.kafka, options.java, options.toxiproxy, cache, say),
        mirror=options.mirror,
        postgres_choice=options.postgres if "postgres" in stores else None,
        image_choice=image_choice(options.image, faults, say) if CLUSTERS[options.cluster].image else None,
    )
    if ready.image and not ready.image.drops_packets and _drops_packets(faults):
        raise EnvironmentFailure(
            f"drop-packets needs iptables, and the image {ready.image.name} has no label {PACKETS_LABEL}=yes: choose "
            "--set image=bundled, or another fault"
        )

    def tool(folder: Path) -> Sequence[str]:
        return broker_command(ready.java, ready.kafka, main=TOOL, args=[], folder=folder)

    if options.settings:
        known = documented_settings(cache, ready.kafka.version, tool)
        for name in check_settings(options.settings, known):
            say(f"Kafka {ready.kafka.version} does not document the broker setting {name}")
    others = prepare_upgrades(upgrades, ready.java, cache, say, mirror=options.mirror)
    return replace(ready, client=client, upgrades=others, preload=preload)


@contextmanager
def archives_beside(prepared: "PreparedEnvironment", say: Callable[[str], None]) -> Iterator[None]:
    """Make the missing archives of classes while the `with` block runs.

    The end of the block waits for them. An exception stops them.

    With archives, brokers start in half the time, and Spark starts 2 s sooner. The first run on a machine makes none,
    because it would take a minute longer.
    """
    if prepared.kafka_is_new:
        yield
        return
    kafka_versions = [prepared.kafka, *(kafka.distribution for kafka in prepared.upgrades.values())]

    errors: list[EnvironmentFailure] = []

    def make_all() -> None:
        try:
            spark.make_archive(prepared.java, builder)
            for kafka in kafka_versions:
                java.make_archive(prepared.java, kafka, prepared.cache, builder)
        except EnvironmentFailure as error:
            errors.append(error)

    # A daemon, because after an interruption it may still wait for another process, which makes the same archive.
    thread = Thread(target=make_all, name="archives", daemon=True)
    with Builder() as builder:
        thread.start()
        yield
        if thread.is_alive():
            say("waiting for archives of classes, from which later runs start sooner (once)")
        thread.join()
        for error in errors:
            log.warning("an archive of classes could not be made, so later runs start more slowly: %s", error)


def _preload_library(cache: Path, faults: Collection[str]) -> Path | None:
    """The preloaded library. None: no fault needs it. Raises `EnvironmentFailure`."""
    names = sorted(name for name in faults if registry.planned_nemeses()[name].needs & PRELOADED)
    if not names:
        return None
    try:
        return preload_library(cache)
    except EnvironmentFailure as error:
        raise EnvironmentFailure(f"{names[0]} cannot be injected on this machine: {error}") from error


def _drops_packets(faults: Collection[str]) -> bool:
    return any(Ability.PACKETS in registry.planned_nemeses()[name].needs for name in faults)


def image_choice(image: str, faults: Collection[str], say: Callable[[str], None]) -> str:
    """The image to use. `drop-packets` needs iptables, which the official image does not have."""
    if image == "auto" and _drops_packets(faults):
        say(
            "drop-packets needs iptables, which the official image does not have: Fencepost builds an image with it"
        )
        return "bundled"
    return image


def end_leftovers(cache: Path, say: Callable[[str], None]) -> None:
    """End processes and containers that earlier runs left behind, and print a line for each."""
    for leftover in [*sweep_leftovers(), *try_remove_abandoned(cache)]:
        say(f"ended what an earlier run had left: {leftover}")


BYTES_AN_INPUT = 6_000
"""Size of a run folder per input: three replicas of each record, journals and tables. Measured."""

COPIES = 12
"""Copies of a padded record: an input and up to three outputs, on three replicas."""


def planned_mb(options: Options) -> int:
    """The estimated size of the run folder."""
    return round(options.rate * options.time_limit_s * (BYTES_AN_INPUT + COPIES * options.record_bytes) / 1e6)
