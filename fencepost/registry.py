"""Look up workloads, faults, defects and anomalies by name. Each package is imported when it is first needed."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from harness.settings.options import KnownNames

if TYPE_CHECKING:
    from harness.runner.nemesis import Nemesis
    from harness.settings.options import Options
    from workloads.custom.pipeline import CustomPipeline
    from workloads.defects import Defect
    from workloads.model.workload import Workload


def workloads() -> "Mapping[str, Workload]":
    """The workloads, by name."""
    from workloads.registry import WORKLOADS

    return WORKLOADS


def pipeline_of(options: "Options") -> "Workload | CustomPipeline":
    """The workload or custom pipeline that the options name. Raises `UsageError`."""
    if options.pipeline is None:
        from workloads.registry import ALL

        return ALL[options.workload]
    from workloads.custom.pipeline import CustomPipeline

    return CustomPipeline.load(options.pipeline)


def nemeses() -> "Mapping[str, Nemesis]":
    """The faults, by name."""
    from nemeses.registry import NEMESES

    return NEMESES


def planned_nemeses() -> "Mapping[str, Nemesis]":
    """The faults that a schedule can have, by name: also those that a user cannot name."""
    from nemeses.registry import HIDDEN, NEMESES

    return {**NEMESES, **HIDDEN}


def defects() -> "Mapping[str, Defect]":
    """The defects, by name."""
    from workloads.defects import DEFECTS

    return DEFECTS


def anomalies() -> Mapping[str, str]:
    """For each anomaly: the first sentence of its checker's docstring, which is its specification."""
    from checkers.catalogue import catalogue

    return {anomaly.name: anomaly.sentence for anomaly in catalogue()}


def kafka_versions() -> tuple[str, ...]:
    """The Kafka versions that a lock file pins."""
    from harness.environment.kafka import versions

    return versions()


def known_names() -> KnownNames:
    """All names that the values of options may contain."""
    from fencepost.nemesis_option import require_known_name
    from harness.cluster.kinds.registry import require_options
    from harness.protocol.rule_options import rules_of

    return KnownNames(
        workloads=workloads(),
        require_fault=lambda fault: require_known_name(fault, nemeses()),
        require_cluster=require_options,
        defects=defects(),
        kafka=kafka_versions(),
        read_rules=rules_of,
    )
