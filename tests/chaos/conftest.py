"""Runs of the long tests share a judge, where they can."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def _judge(fencepost_judge: None) -> None:
    """One Spark for all verdicts."""
