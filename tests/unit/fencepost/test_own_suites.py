"""The suite files of the project can be planned, for every version of Kafka."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from fencepost.commands.options import settle
from fencepost.registry import kafka_versions, pipeline_of
from fencepost.runs.planning import draw_schedule
from fencepost.suites import plan
from fencepost.suites.plan import SuiteRequest
from harness.environment.client_versions import client_versions
from harness.settings.options import parse_set

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("name", [path.stem for path in sorted((ROOT / "suites").glob("*.toml"))])
def test_each_suite_of_the_project_can_be_planned(name: str) -> None:
    suite = plan.load(ROOT / "suites" / f"{name}.toml", SuiteRequest(settle, seed=1)).suite
    assert suite.name == name
    assert suite.cells


def test_the_versions_suite_has_every_pinned_version() -> None:
    cells = plan.load(ROOT / "suites" / "versions.toml", SuiteRequest(settle, seed=1)).suite.cells
    assert {cell.options["kafka"] for cell in cells} == set(kafka_versions())
    assert {cell.options["client"] for cell in cells} > {client.name for client in client_versions()}


@pytest.mark.parametrize("version", kafka_versions())
def test_the_nightly_suite_can_be_planned_for_every_kafka_version(version: str) -> None:
    """`.github/workflows/nightly.yml` runs it with these options."""
    request = SuiteRequest(settle, seed=1, sets=[parse_set(f"kafka={version}")])
    cells = plan.load(ROOT / "suites" / "nightly.toml", request).suite.cells
    assert {cell.kafka for cell in cells} == {version}
    assert any(cell.options["group-protocol"] == "consumer" for cell in cells) is (version != "3.9.2")


@pytest.mark.parametrize(
    ("name", "sides"),
    [
        ("compare-group-protocols", ("group-protocol=classic", "group-protocol=consumer")),
        ("compare-clients", ("client=librdkafka", "client=java")),
        ("compare-kafka", ("kafka=3.9.2", "kafka=4.4.0")),
    ],
)
def test_both_sides_of_a_comparison_have_the_same_faults(name: str, sides: Sequence[str]) -> None:
    schedules = []
    for side in sides:
        request = SuiteRequest(settle, sets=[parse_set(side)])
        planned = plan.load(ROOT / "suites" / f"{name}.toml", request)
        assert len(planned.suite.cells) == 10
        assert f"--set {side} --name" in (ROOT / "suites" / f"{name}.toml").read_text()
        schedules.append(
            [
                (cell.nemesis, cell.seed, draw_schedule(options, pipeline_of(options)).planned_faults)
                for cell, options in zip(planned.suite.cells, planned.options.values(), strict=True)
            ]
        )
    assert schedules[0] == schedules[1]
