"""One real run that all tests of stored runs share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.api import Result
from tests.support.altered_store import run_correct_pipeline


@pytest.fixture(scope="session")
def runs_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all runs of the session."""
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="session", autouse=True)
def _shared_spark(fencepost_spark: None) -> None:
    """Let the runs and checks of the session share a Spark."""


@pytest.fixture(scope="session")
def stored(runs_folder: Path) -> Iterator[Result]:
    """A run of a correct pipeline, with faults in its workers."""
    yield run_correct_pipeline(runs_folder / "store", brokers=2)
