"""The fixture `fencepost`: a run in a test, and its verdict as the test's.

    @pytest.mark.fencepost(nemesis="kill-broker", time_limit=30)
    def test_the_shop_survives_a_killed_broker(fencepost):
        fencepost().assert_valid()

What the options of pytest mean: docs/pytest.md. This loads no other room of the house.
"""

import os
import secrets
import shlex
from collections.abc import Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fencepost.api import COMMAND_VARIABLE, FencepostFailed, Result, RunFunction, run
from fencepost.sharing.client import can_connect
from fencepost.sharing.cluster import SharedCluster, shared_cluster
from fencepost.sharing.process import SERVER_VARIABLE, SharedServer, server_in_environment

NIGHTLY_SEEDS = 3
"""How often a nightly session carries out a test, each time with another seed."""
NIGHTLY_FACTOR = 3
"""How much longer each of its runs takes inputs."""
TIME_LIMIT_S = 60.0
"""What `fencepost run` has if it is not told."""
SECOND_RUN = 1000
"""How far apart the seeds of two runs of one test are; those of two nights are neighbours."""

WORDS = {
    "seed": "the seed of every run that names none (default: drawn once for the session, and shown where a test fails)",
    "nightly": f"carry out each test that uses `fencepost` {NIGHTLY_SEEDS} times, each time with another seed, "
    f"and {NIGHTLY_FACTOR} times as long; the marker's nightly=dict(seeds=..., time_limit=...) says otherwise",
    "store": "keep the runs of the fixture `fencepost` here (default: the temporary folder of each test)",
    "command": "run the `fencepost` of another environment, for instance '/opt/fencepost/bin/fencepost' or "
    "'pipx run fencepost'",
}
MARKER = (
    "fencepost(**options): options of `fencepost run` that each run of the fixture `fencepost` has in this test; "
    "nightly=dict(...): what a session with --fencepost-nightly has instead, and the number of its `seeds`"
)


@dataclass
class PluginSession:
    """What holds for a whole session."""

    seed: int
    nightly: bool
    before: str | None  # what the environment named as the command
    server: SharedServer | None = None  # of the workers of pytest-xdist


@dataclass
class PluginRuns:
    """The runs of one test."""

    results: list[Result] = field(default_factory=list)
    begun: int = 0


_SESSION = pytest.StashKey[PluginSession]()
_RUNS = pytest.StashKey[PluginRuns]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--fencepost-...`."""
    group = parser.getgroup("fencepost", "chaos tests of Kafka pipelines")
    group.addoption("--fencepost-seed", metavar="N", type=int, help=WORDS["seed"])
    group.addoption("--fencepost-nightly", action="store_true", help=WORDS["nightly"])
    group.addoption("--fencepost-store", metavar="DIR", help=WORDS["store"])
    group.addoption("--fencepost-command", metavar="COMMAND", help=WORDS["command"])


def pytest_configure(config: pytest.Config) -> None:
    """Draw the session's seed; a worker of pytest-xdist has that of its session."""
    config.addinivalue_line("markers", MARKER)
    seed = config.getoption("--fencepost-seed")
    if seed is None:
        seed = _told(config).get("fencepost_seed", secrets.randbelow(2**31))
    nightly = config.getoption("--fencepost-nightly")
    config.stash[_SESSION] = PluginSession(seed, nightly, os.environ.get(COMMAND_VARIABLE))
    if command := config.getoption("--fencepost-command"):
        os.environ[COMMAND_VARIABLE] = command


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave the environment as it was."""
    session = config.stash.get(_SESSION, None)
    if session is None:
        return
    if session.server:
        session.server.close()
    if session.before is None:
        os.environ.pop(COMMAND_VARIABLE, None)
    else:
        os.environ[COMMAND_VARIABLE] = session.before


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist the session's seed, and the socket of its server."""
    session = node.config.stash[_SESSION]
    node.workerinput["fencepost_seed"] = session.seed
    with suppress(OSError):  # no place for a socket: each worker has a server of its own
        session.server = session.server or SharedServer(lazy=True)
        node.workerinput["fencepost_server"] = str(session.server.path)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """In a nightly session, carry out each test several times."""
    if metafunc.config.stash[_SESSION].nightly and "fencepost_night" in metafunc.fixturenames:
        count = _nightly(metafunc.definition).get("seeds", NIGHTLY_SEEDS)
        nights = range(count)
        metafunc.parametrize("fencepost_night", nights, ids=[f"night-{night + 1}" for night in nights])


@pytest.fixture
def fencepost_night() -> int:
    """Which of a nightly session's times this is, from 0 on."""
    return 0


@pytest.fixture(scope="session")
def _fencepost_server(pytestconfig: pytest.Config) -> Iterator[Path]:
    """The socket of the session's server, which all workers of pytest-xdist share."""
    given = _told(pytestconfig).get("fencepost_server")
    if given and can_connect(Path(given)):
        yield Path(given)
        return
    with SharedServer() as server:
        yield server.path


@pytest.fixture(scope="session")
def fencepost_judge(request: pytest.FixtureRequest) -> Iterator[None]:
    """One Spark for all verdicts of the session; a `fencepost.run` of your own may ask for it too."""
    if os.environ.get(SERVER_VARIABLE):
        yield  # there is one already
        return
    with server_in_environment(request.getfixturevalue("_fencepost_server")):
        yield


@pytest.fixture(scope="session")
def fencepost_cluster_options() -> dict[str, Any]:
    """What `fencepost_cluster` is to be: define a fixture of this name that returns `{"kafka": "3.9.2"}`, say."""
    return {}


@pytest.fixture(scope="session")
def fencepost_cluster(_fencepost_server: Path, fencepost_cluster_options: dict[str, Any]) -> SharedCluster:
    """One cluster for the tests of a session that ask for it, each with topics of its own; xdist's workers share it."""
    try:
        return shared_cluster(_fencepost_server, fencepost_cluster_options)
    except FencepostFailed as error:
        pytest.fail(f"fencepost_cluster: {error}", pytrace=False)


@pytest.fixture
def fencepost(request: pytest.FixtureRequest, fencepost_judge: None, fencepost_night: int) -> RunFunction:
    """`fencepost.run`, with the options of the test's marker, and a store for this test; on `fencepost_cluster`, where
    the test uses that and names no other cluster.
    """
    session = request.config.stash[_SESSION]
    chosen = request.config.getoption("--fencepost-store")
    store = chosen or str(request.getfixturevalue("tmp_path") / "store")
    runs = request.node.stash.setdefault(_RUNS, PluginRuns())
    marked = _marked(request.node)

    def run_here(**options: Any) -> Result:
        __tracebackhide__ = True
        settled = {"store": store, **_without_nightly(marked), **options}
        if "cluster" not in settled and "fencepost_cluster" in request.fixturenames:
            settled["cluster"] = request.getfixturevalue("fencepost_cluster")
        shared = settled["cluster"] if isinstance(settled.get("cluster"), SharedCluster) else None
        settled |= shared.options if shared else {}
        if session.nightly:
            longer = NIGHTLY_FACTOR * float(settled.get("time_limit") or TIME_LIMIT_S)
            settled |= {"time_limit": longer, **_nightly(request.node)}
            settled.pop("seeds", None)
        seed = settled.get("seed")
        own = session.seed + SECOND_RUN * runs.begun if seed is None else int(seed)
        settled["seed"] = own + fencepost_night
        runs.begun += 1
        result = run(**settled)
        result = shared.result(result) if shared else result
        runs.results.append(result)
        told = {"verdict": result.word, "seed": settled["seed"], "report": result.report}
        request.node.user_properties += [(f"fencepost_{key}", str(value)) for key, value in told.items()]
        return result

    return run_here


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put what each run came to, and how to repeat a test that failed, into the test's report."""
    report = yield
    runs = item.stash.get(_RUNS, None)
    if runs and runs.begun and (report.when == "call" or report.failed):
        words = [result.explain() for result in runs.results]
        if report.failed:
            words.append(f"repeat the test: {_repeat(item)}")
        report.sections.append(("fencepost", "\n".join(words)))
    return report


def _repeat(item: pytest.Item) -> str:
    """The command that carries out this test alone, with the same seeds."""
    session = item.config.stash[_SESSION]
    words = ["pytest", item.nodeid, "--fencepost-seed", str(session.seed)]
    words += ["--fencepost-nightly"] if session.nightly else []
    if command := item.config.getoption("--fencepost-command"):
        words += ["--fencepost-command", command]
    return shlex.join(words)


def _told(config: pytest.Config) -> dict[str, Any]:
    """What a worker of pytest-xdist was told; empty in a session of one process."""
    told: dict[str, Any] = getattr(config, "workerinput", {})
    return told


def _marked(node: pytest.Item) -> dict[str, Any]:
    """The options of its markers: the test's own, then its class's, then its module's."""
    options: dict[str, Any] = {}
    for marker in reversed(list(node.iter_markers("fencepost"))):
        if marker.args:
            pytest.fail(
                f"{node.nodeid}: the marker fencepost takes options by name, "
                "for instance fencepost(nemesis='kill-broker', time_limit=30)",
                pytrace=False,
            )
        options |= marker.kwargs
    return options


def _nightly(node: Any) -> dict[str, Any]:
    """What its markers say of nightly sessions."""
    return dict(_marked(node).get("nightly", {}))


def _without_nightly(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name != "nightly"}
