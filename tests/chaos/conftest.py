"""Runs of the long tests share a judge, where they can."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the runs of the session are kept."""
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="session", autouse=True)
def _judge(fencepost_spark: None) -> None:
    """One Spark for all verdicts."""
