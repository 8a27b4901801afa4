"""The pytest plugin. Its fixture `fencepost` starts a run in a test and returns the verdict.

    @pytest.mark.fencepost(nemesis="kill-broker", time_limit=30)
    def test_the_shop_survives_a_killed_broker(fencepost):
        fencepost().assert_valid()

docs/pytest.md explains the options. This module imports no other package of Fencepost, because it is loaded into every
session of pytest.
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
from fencepost.sharing import (
    SERVER_VARIABLE,
    SharedCluster,
    SharedServer,
    can_connect,
    server_in_environment,
    shared_cluster,
)

NIGHTLY_SEEDS = 3
"""How many times a nightly session runs a test, each time with another seed."""
NIGHTLY_FACTOR = 3
"""Factor by which the time limit of each run is longer in a nightly session."""
TIME_LIMIT_S = 60.0
"""The default of `fencepost run`."""
SEED_DISTANCE = 1000
"""Distance between the seeds of two runs in one test. The seeds of two nights differ by 1."""

HELP = {
    "seed": "seed of every run that sets none (default: drawn once per session, and printed when a test fails)",
    "nightly": f"run each test that uses `fencepost` {NIGHTLY_SEEDS} times, each time with another seed, "
    f"and with a time limit {NIGHTLY_FACTOR} times as long; nightly=dict(seeds=..., time_limit=...) in the marker "
    "overrides both",
    "store": "store the runs of the fixture `fencepost` in this folder, relative to the rootdir (default: the "
    "temporary folder of each test)",
    "command": "run the command `fencepost` of another environment, for instance '/opt/fencepost/bin/fencepost' or "
    "'pipx run fencepost'",
}
MARKER = (
    "fencepost(**options): options of `fencepost run` for each run of the fixture `fencepost` in this test; "
    "nightly=dict(...): options that replace them with --fencepost-nightly, and the number of `seeds`"
)


@dataclass
class PluginSession:
    """State of a pytest session."""

    seed: int
    nightly: bool
    before: dict[str, str | None]  # the values of the environment variables before the session
    server: SharedServer | None = None  # which workers of pytest-xdist share


@dataclass
class PluginRuns:
    """The runs of one test."""

    results: list[Result] = field(default_factory=list)
    started: int = 0


IMPORT_VARIABLE = "FENCEPOST_IMPORT_PATH"
"""The environment variable with the folders from which pytest imports: a pipeline's functions can do so as well."""
_SESSION = pytest.StashKey[PluginSession]()
_RUNS = pytest.StashKey[PluginRuns]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options `--fencepost-...`."""
    group = parser.getgroup("fencepost", "chaos tests of Kafka pipelines")
    group.addoption("--fencepost-seed", metavar="N", type=int, help=HELP["seed"])
    group.addoption("--fencepost-nightly", action="store_true", help=HELP["nightly"])
    group.addoption("--fencepost-store", metavar="DIR", help=HELP["store"])
    group.addoption("--fencepost-command", metavar="COMMAND", help=HELP["command"])


def pytest_configure(config: pytest.Config) -> None:
    """Draw the seed of the session. A worker of pytest-xdist takes the seed of its controller."""
    config.addinivalue_line("markers", MARKER)
    seed = config.getoption("--fencepost-seed")
    if seed is None:
        seed = _worker_input(config).get("fencepost_seed", secrets.randbelow(2**31))
    nightly = config.getoption("--fencepost-nightly")
    before = {variable: os.environ.get(variable) for variable in (COMMAND_VARIABLE, IMPORT_VARIABLE)}
    config.stash[_SESSION] = PluginSession(seed, nightly, before)
    folders = [config.rootpath, *config.getini("pythonpath")]
    os.environ[IMPORT_VARIABLE] = os.pathsep.join(map(str, folders))
    if command := config.getoption("--fencepost-command"):
        os.environ[COMMAND_VARIABLE] = _with_absolute_path(command, config.invocation_params.dir)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Close the server and restore the environment."""
    session = config.stash.get(_SESSION, None)
    if session is None:
        return
    if session.server:
        session.server.close()
    for variable, before in session.before.items():
        if before is None:
            os.environ.pop(variable, None)
        else:
            os.environ[variable] = before


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Send the seed and the socket of the shared server to a worker of pytest-xdist."""
    session = node.config.stash[_SESSION]
    node.workerinput["fencepost_seed"] = session.seed
    with suppress(OSError):  # no socket could be made: each worker starts its own server
        session.server = session.server or SharedServer(lazy=True)
        node.workerinput["fencepost_server"] = str(session.server.path)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """In a nightly session, run each test several times."""
    if metafunc.config.stash[_SESSION].nightly and "fencepost_night" in metafunc.fixturenames:
        count = _nightly_options(metafunc.definition).get("seeds", NIGHTLY_SEEDS)
        nights = range(count)
        metafunc.parametrize("fencepost_night", nights, ids=[f"night-{night + 1}" for night in nights])


@pytest.fixture
def fencepost_night() -> int:
    """The number of the repetition in a nightly session, from 0."""
    return 0


@pytest.fixture(scope="session")
def _fencepost_server(pytestconfig: pytest.Config) -> Iterator[Path]:
    """The socket of the shared server. All workers of pytest-xdist use the same server."""
    path = _worker_input(pytestconfig).get("fencepost_server")
    if path and can_connect(Path(path)):
        yield Path(path)
        return
    with SharedServer() as server:
        yield server.path


@pytest.fixture(scope="session")
def fencepost_spark(request: pytest.FixtureRequest) -> Iterator[None]:
    """One Spark for all verdicts of the session. Request it if your test calls `fencepost.run` itself."""
    if os.environ.get(SERVER_VARIABLE):
        yield  # a shared server exists already
        return
    with server_in_environment(request.getfixturevalue("_fencepost_server")):
        yield


@pytest.fixture(scope="session")
def fencepost_cluster_options() -> dict[str, Any]:
    """Options of `fencepost_cluster`. To set some, override this fixture: return `{"kafka": "3.9.2"}`, for example."""
    return {}


@pytest.fixture(scope="session")
def fencepost_cluster(_fencepost_server: Path, fencepost_cluster_options: dict[str, Any]) -> SharedCluster:
    """One cluster for all tests of the session that request it. Each run has its own topics.

    The workers of pytest-xdist share the cluster.
    """
    try:
        return shared_cluster(_fencepost_server, fencepost_cluster_options)
    except FencepostFailed as error:
        pytest.fail(f"fencepost_cluster: {error}", pytrace=False)


@pytest.fixture
def fencepost(request: pytest.FixtureRequest, fencepost_spark: None, fencepost_night: int) -> RunFunction:
    """A function like `fencepost.run`, with the options of the marker and a store for this test.

    If the test also uses the fixture `fencepost_cluster` and names no other cluster, the runs use that cluster.
    """
    session = request.config.stash[_SESSION]
    folder = request.config.getoption("--fencepost-store")
    root = request.config.rootpath  # a test may change the working directory
    store = str(root / Path(folder).expanduser() if folder else request.getfixturevalue("tmp_path") / "store")
    runs = request.node.stash.setdefault(_RUNS, PluginRuns())
    marker = _marker_options(request.node)

    def run_in_test(**options: Any) -> Result:
        __tracebackhide__ = True
        settings = {"store": store, **_without_nightly(marker), **options}
        if "cluster" not in settings and "fencepost_cluster" in request.fixturenames:
            settings["cluster"] = request.getfixturevalue("fencepost_cluster")
        shared = settings["cluster"] if isinstance(settings.get("cluster"), SharedCluster) else None
        settings |= shared.options if shared else {}
        if session.nightly:
            longer = NIGHTLY_FACTOR * float(settings.get("time_limit") or TIME_LIMIT_S)
            settings |= {"time_limit": longer, **_nightly_options(request.node)}
            settings.pop("seeds", None)
        seed = settings.get("seed")
        seed_of_run = session.seed + SEED_DISTANCE * runs.started if seed is None else int(seed)
        settings["seed"] = seed_of_run + fencepost_night
        runs.started += 1
        result = run(**settings)
        result = shared.result(result) if shared else result
        runs.results.append(result)
        report = result.report
        if report is not None and report.is_relative_to(root):
            report = report.relative_to(root)
        properties = {"verdict": result.word, "seed": settings["seed"], "report": report}
        request.node.user_properties += [
            (f"fencepost_{key}", str(value)) for key, value in properties.items()
        ]
        return result

    return run_in_test


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the verdict of each run to the report of the test. If it failed, add the command that repeats it."""
    report = yield
    runs = item.stash.get(_RUNS, None)
    if runs and runs.started and (report.when == "call" or report.failed):
        texts = [result.explain() for result in runs.results]
        if report.failed:
            texts.append(f"repeat the test: {_repeat(item)}")
        report.sections.append(("fencepost", "\n".join(texts)))
    return report


def _repeat(item: pytest.Item) -> str:
    """The command that runs this test alone, with the same seeds."""
    session = item.config.stash[_SESSION]
    words = ["pytest", item.nodeid, "--fencepost-seed", str(session.seed)]
    words += ["--fencepost-nightly"] if session.nightly else []
    if command := item.config.getoption("--fencepost-command"):
        words += ["--fencepost-command", command]
    return shlex.join(words)


def _with_absolute_path(command: str, folder: Path) -> str:
    """Return a command whose program, if its path is relative, is found from any working directory."""
    program, *words = shlex.split(command) or [""]
    path = Path(program).expanduser()
    is_path = "/" in program and not path.is_absolute()
    return shlex.join([str(folder / path), *words]) if is_path else command


def _worker_input(config: pytest.Config) -> dict[str, Any]:
    """The values that the controller of pytest-xdist sent to this worker. Empty if this process is no worker."""
    worker_input: dict[str, Any] = getattr(config, "workerinput", {})
    return worker_input


def _marker_options(node: pytest.Item) -> dict[str, Any]:
    """The options of the markers. The test overrides its class, and the class overrides its module."""
    options: dict[str, Any] = {}
    for marker in reversed(list(node.iter_markers("fencepost"))):
        if marker.args:
            pytest.fail(
                f"{node.nodeid}: the marker fencepost takes only named options, "
                "for instance fencepost(nemesis='kill-broker', time_limit=30)",
                pytrace=False,
            )
        options |= marker.kwargs
    return options


def _nightly_options(node: Any) -> dict[str, Any]:
    """The `nightly` options of the markers."""
    return dict(_marker_options(node).get("nightly", {}))


def _without_nightly(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name != "nightly"}
