"""The suites that the project has itself: each can be carried out, whatever version it is asked for."""

from pathlib import Path

import pytest

from fencepost.commands.options import settle
from fencepost.registry import kafka_versions
from fencepost.suites import plan
from fencepost.suites.plan import SuiteRequest
from harness.environment.client_versions import client_versions
from harness.settings.options import parse_set

HOUSE = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("name", [path.stem for path in sorted((HOUSE / "suites").glob("*.toml"))])
def test_the_projects_own_suites_can_be_carried_out(name: str) -> None:
    made = plan.load(HOUSE / "suites" / f"{name}.toml", SuiteRequest(settle, seed=1))
    assert made.suite.name == name
    assert made.suite.cells


def test_the_suite_of_versions_has_every_one_that_is_pinned() -> None:
    cells = plan.load(HOUSE / "suites" / "versions.toml", SuiteRequest(settle, seed=1)).suite.cells
    assert {cell.options["kafka"] for cell in cells} == set(kafka_versions())
    assert {cell.options["client"] for cell in cells} > {one.name for one in client_versions()}


@pytest.mark.parametrize("version", kafka_versions())
def test_the_nightly_suite_can_be_carried_out_on_every_version(version: str) -> None:
    """As `.github/workflows/nightly.yml` has it carried out."""
    asked = SuiteRequest(settle, seed=1, sets=[parse_set(f"kafka={version}")])
    cells = plan.load(HOUSE / "suites" / "nightly.toml", asked).suite.cells
    assert {cell.kafka for cell in cells} == {version}
    assert any(cell.options["group-protocol"] == "consumer" for cell in cells) is (version != "3.9.2")
