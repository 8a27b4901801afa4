"""Names to objects, for the whole house: the one place that asks every room what it has."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from harness.settings.known import Known

if TYPE_CHECKING:
    from harness.runner.faults import Nemesis
    from harness.settings.options import Options
    from pipelines.pipeline import UserPipeline
    from workloads.defects.defect import Defect
    from workloads.model.workload import Workload


def clusters() -> Mapping[str, str]:
    """The kinds of cluster, and what each is."""
    from fencepost.clusters import CLUSTERS

    return {kind.name: kind.summary for kind in CLUSTERS.values()}


def workloads() -> "Mapping[str, Workload]":
    """The pipelines under test."""
    from workloads.registry import WORKLOADS

    return WORKLOADS


def pipeline_of(options: "Options") -> "Workload | UserPipeline":
    """The pipeline that these options ask for: one of ours, or a user's. Raises `UsageError`."""
    if options.pipeline is None:
        return workloads()[options.workload]
    from pipelines.pipeline import UserPipeline

    return UserPipeline.load(options.pipeline)


def nemeses() -> "Mapping[str, Nemesis]":
    """The faults."""
    from nemeses.registry import NEMESES

    return NEMESES


def defects() -> "Mapping[str, Defect]":
    """The ways of being wrong on purpose."""
    from workloads.defects.registry import DEFECTS

    return DEFECTS


def workload_entries() -> list[dict[str, Any]]:
    """All that `fencepost list workloads --json` tells of each."""
    from harness.environment.client_versions import CLIENTS

    return [
        {
            "name": one.name,
            "summary": one.summary,
            "guarantee": one.guarantee.value,
            "delivery": one.delivery.value,
            "stages": [
                {
                    "name": stage.name,
                    "reads": list(stage.reads),
                    "writes": list(stage.writes),
                    "delivery": one.delivery_of(stage).value,
                }
                for stage in one.stages
            ],
            "topics": list(one.topics),
            "tables": [{"name": name, "store": kind} for name, kind in one.tables.items()],
            "clients": list(CLIENTS),
            "defects": [name for name, defect in defects().items() if defect.fits(one)],
        }
        for one in workloads().values()
    ]


def defect_entries() -> list[dict[str, Any]]:
    """All that `fencepost list defects --json` tells of each."""
    return [
        {
            "name": one.name,
            "summary": one.summary,
            "workloads": [name for name, workload in workloads().items() if one.fits(workload)],
            "clients": sorted(one.clients),
            "anomalies": sorted(one.anomalies),
        }
        for one in defects().values()
    ]


def checkers() -> Mapping[str, str]:
    """By the checker's file: its family, and the anomalies that it finds."""
    from checkers.registry import CHECKERS

    return {one.module: f"{one.family}: finds {', '.join(one.anomalies)}" for one in CHECKERS}


def anomalies() -> Mapping[str, str]:
    """By name: the first sentence of the checker's docstring, which is its specification."""
    from checkers.catalogue import catalogue

    return {one.name: one.sentence for one in catalogue()}


def anomaly_page(name: str) -> str:
    """Return the specification of an anomaly and how it counts in a verdict, as Markdown."""
    from checkers.catalogue import catalogue
    from checkers.pages import page

    return next(page(one) for one in catalogue() if one.name == name)


def kafka_versions() -> tuple[str, ...]:
    """The versions that a lock file pins."""
    from harness.environment.kafka import versions

    return versions()


def kafka_entries() -> list[dict[str, Any]]:
    """All that `fencepost list kafka --json` tells of each."""
    from harness.environment.kafka_versions import kafka_version

    return [
        {
            "name": one.version,
            "summary": one.summary,
            "line": one.line,
            "transaction_versions": list(one.transaction_versions),
            "transaction_default": one.transaction_default,
            "consumer_protocol": one.consumer_protocol,
            "java": one.java,
        }
        for one in map(kafka_version, kafka_versions())
    ]


def client_entries() -> list[dict[str, Any]]:
    """All that `fencepost list clients --json` tells of each."""
    from harness.environment.client_versions import PACKAGES, UNVERSIONED, client_versions

    unversioned = [
        {"name": name, "summary": words.removeprefix("which is "), "client": name, "package": PACKAGES[name]}
        for name, words in UNVERSIONED.items()
    ]
    return unversioned + [
        {
            "name": one.name,
            "summary": one.summary,
            "client": one.client,
            "package": PACKAGES[one.client],
            "version": one.version,
            "librdkafka": one.library,
            "notes": one.notes,
        }
        for one in client_versions()
    ]


def known() -> Known:
    """All names that options may hold."""
    from fencepost.aims import require_known

    return Known(
        workloads=workloads(),
        require_fault=lambda asked: require_known(asked, nemeses()),
        defects=defects(),
        kafka=kafka_versions(),
    )
