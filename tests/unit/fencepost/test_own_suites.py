"""The suite files of the project can be planned, for every version of Kafka."""

import re
from pathlib import Path

import pytest

from fencepost.commands.options import settle
from fencepost.registry import kafka_versions, pipeline_of
from fencepost.runs.planning import draw_schedule
from fencepost.suites import plan
from fencepost.suites.plan import SuiteRequest
from harness.environment.versions import client_versions
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


def test_all_sides_of_the_comparison_have_the_same_faults() -> None:
    file = ROOT / "suites" / "compare.toml"
    commands = re.findall(r"fencepost suite suites/compare.toml --jobs 1 --name \S+(.*)", file.read_text())
    assert len(commands) == 4
    schedules = []
    for command in commands:
        sets = [parse_set(side) for side in re.findall(r"--set (\S+)", command)]
        planned = plan.load(file, SuiteRequest(settle, sets=sets))
        assert len(planned.suite.cells) == 10
        schedules.append(
            [
                (cell.nemesis, cell.seed, draw_schedule(options, pipeline_of(options)).planned_faults)
                for cell, options in zip(planned.suite.cells, planned.options.values(), strict=True)
            ]
        )
    assert all(schedule == schedules[0] for schedule in schedules)
