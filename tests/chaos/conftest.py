"""Runs and checks of the long tests share a Spark."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def runs_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all runs of the session."""
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="session", autouse=True)
def _shared_spark(fencepost_spark: None) -> None:
    """One Spark for all verdicts."""
