"""Names to objects, for the whole house: the one place that asks every room what it has."""

import ast
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from harness.options import Known

if TYPE_CHECKING:
    from harness.schedule import Nemesis
    from workloads.defects import Defect
    from workloads.model import Workload

CLUSTERS: Mapping[str, str] = {
    "local": "three Kafka nodes as processes of this machine, no root and no Docker"
}


def workloads() -> "Mapping[str, Workload]":
    """The pipelines under test."""
    from workloads.registry import WORKLOADS

    return WORKLOADS


def nemeses() -> "Mapping[str, Nemesis]":
    """The faults."""
    from nemeses.registry import NEMESES

    return NEMESES


def defects() -> "Mapping[str, Defect]":
    """The ways of being wrong on purpose."""
    from workloads.defects import DEFECTS

    return DEFECTS


def checkers() -> Mapping[str, str]:
    """By the checker's file: its family, and the anomalies that it finds."""
    from checkers.registry import CHECKERS

    return {one.module: f"{one.family}: finds {', '.join(one.anomalies)}" for one in CHECKERS}


def anomalies() -> Mapping[str, str]:
    """By name: the first sentence of the checker's docstring, which is its specification."""
    from checkers.registry import CHECKERS

    return {name: _definition(f"checkers.{one.module}") for one in CHECKERS for name in one.anomalies}


def _definition(module: str) -> str:
    """Read from the file: importing it would load PySpark."""
    spec = find_spec(module)
    assert spec is not None and spec.origin is not None, f"{module} is registered, and is not there"
    words = ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))) or ""
    first = " ".join(words.split("\n\n")[0].split())
    sentence = first.partition(": ")[2] or first
    return sentence[:1].lower() + sentence[1:].rstrip(".")


def kafka_versions() -> tuple[str, ...]:
    """The versions that a lock file pins."""
    from harness.environment.kafka import versions

    return versions()


def known() -> Known:
    """All names that options may hold."""
    return Known(workloads=workloads(), faults=nemeses(), defects=defects(), kafka=kafka_versions())
