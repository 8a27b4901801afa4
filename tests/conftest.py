"""What all tests share: one Spark for the whole session, the tiers, and what is said of skips."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings as hypothesis_settings
from pyspark.sql import SparkSession
from xdist.scheduler import LoadScopeScheduling

from checkers.spark.session import session
from fencepost.checks.spark import spark_settings
from harness.environment.java import find_java
from tests.support.one_anomaly import anomalies_named, tests_of

hypothesis_settings.register_profile(
    "fencepost", deadline=None
)  # how long an example takes is the machine's affair
hypothesis_settings.load_profile("fencepost")

UNIT = Path(__file__).parent / "unit"
APART = (
    "tests/web/",
    "tests/integration/test_check_histories.py",
    "tests/integration/test_environment.py",
    "tests/integration/test_postgres.py",
    "tests/integration/test_protocol_schemas.py",
    "tests/integration/test_spark.py",
)
"""Tests that need neither a cluster nor the Spark that others share."""
_SKIPPED = pytest.StashKey[dict[str, int]]()
_ANOMALIES = pytest.StashKey[frozenset[str]]()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark for all tests, from the archive of its classes if a run has made one."""
    with session(spark_settings(find_java("auto"), "local[*]", {})) as started:
        yield started


@pytest.fixture
def python_of_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `python3` in the examples be the Python that runs the tests."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--anomaly", metavar="NAME", help="run only the cases of one anomaly and the tests that name it"
    )
    parser.addoption(
        "--golden-update",
        action="store_true",
        help="write the expected texts of tests/golden instead of comparing",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Whatever uses the fixture `spark` bears the mark of that name, which `make quick` leaves out; all other unit
    tests are `light`: any of them can run side by side.
    """
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")
        elif UNIT in item.path.parents:
            item.add_marker("light")
    if config.stash[_ANOMALIES]:
        chosen = tests_of(config.stash[_ANOMALIES], items)
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = chosen


START_EVENTS = ("subprocess.Popen", "os.fork", "os.posix_spawn")
"""The audit events of Python when a process is started."""
_without_processes: list[str] = []
"""The light test that runs now, if it lacks the mark `processes`."""


def _refuse_processes(event: str, _: object) -> None:
    if event in START_EVENTS and _without_processes:
        raise AssertionError(f"{_without_processes[0]} starts a process: mark it with @pytest.mark.processes")


sys.addaudithook(_refuse_processes)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Refuse a process of a test without the mark, because `make quick` would run it."""
    if item.get_closest_marker("light") and not item.get_closest_marker("processes"):
        _without_processes.append(item.nodeid)
    try:
        return (yield)
    finally:
        _without_processes.clear()


class ClustersApart(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """One process starts clusters, so that two clusters never share the machine. The other one has the tests that share
    a Spark. The files of tests that need neither go to the process that is ready first.
    """

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(APART):
            return nodeid.partition("::")[0]
        return "clusters" if nodeid.startswith("tests/integration/") else "others"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    """Where groups are asked for (`--dist loadgroup`), these are they."""
    return ClustersApart(config, log) if config.getvalue("dist") == "loadgroup" else None


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_SKIPPED] = {}
    name = config.getoption("--anomaly")
    config.stash[_ANOMALIES] = frozenset() if name is None else anomalies_named(name)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Gather the reasons of skips, by how many tests each concerns."""
    counts = config.stash[_SKIPPED]
    for report in terminalreporter.stats.get("skipped", ()):
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        words = why.removeprefix("Skipped: ")
        counts[words] = counts.get(words, 0) + 1


def pytest_unconfigure(config: pytest.Config) -> None:
    """The very last line: what was not tested, and why."""
    counts = config.stash.get(_SKIPPED, {})
    if counts:
        print("not tested: " + "; ".join(f"{count} ({words})" for words, count in counts.items()))  # noqa: T201
