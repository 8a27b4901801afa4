"""One real run that all tests of stored runs share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.api import Result
from tests.support.altered_store import a_right_run


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the runs of the session are kept."""
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="session", autouse=True)
def _judge(fencepost_spark: None) -> None:
    """Runs and checks of the session share a Spark, where they can."""


@pytest.fixture(scope="session")
def stored(place: Path) -> Iterator[Result]:
    """A run of a correct pipeline under the faults that strike its workers."""
    yield a_right_run(place / "store")
