"""The fixture `fencepost`: a run in a test, and its verdict as the test's.

    def test_the_shop_survives_a_killed_broker(fencepost):
        fencepost(nemesis="kill-broker", time_limit=30).assert_valid()

Runs are kept in the test's temporary folder, or in the one that `--fencepost-store` names. The
reports' paths stand in the test's output. This loads no other room of the house.
"""

from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

from fencepost.api import Result, run
from fencepost.judges.lifetime import shared_judge

_RESULTS: pytest.StashKey[list[Result]] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--fencepost-store`."""
    group = parser.getgroup("fencepost", "chaos tests of Kafka pipelines")
    group.addoption(
        "--fencepost-store",
        metavar="DIR",
        help="keep the runs of the fixture `fencepost` here (default: the temporary folder of each test)",
    )


@pytest.fixture(scope="session")
def fencepost_judge() -> Iterator[None]:
    """One Spark for all verdicts of the session; a `fencepost.run` of your own may ask for it too."""
    with shared_judge():
        yield


@pytest.fixture
def fencepost(request: pytest.FixtureRequest, fencepost_judge: None) -> Callable[..., Result]:
    """`fencepost.run`, with a store for this test; takes the options of `fencepost run`."""
    chosen = request.config.getoption("--fencepost-store")
    store = chosen or str(request.getfixturevalue("tmp_path") / "store")
    results = request.node.stash.setdefault(_RESULTS, [])

    def run_here(**options: Any) -> Result:
        options.setdefault("store", store)
        result = run(**options)
        results.append(result)
        return result

    return run_here


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put what each run came to into the test's report."""
    report = yield
    if report.when == "call" and item.stash.get(_RESULTS, []):
        words = "\n".join(result.explain() for result in item.stash[_RESULTS])
        report.sections.append(("fencepost", words))
    return report
