"""The Spark that checks a run, and when it starts."""

from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.checks import spark
from fencepost.checks.spark import LARGE_WARM_UP_S, LEAST_S, WARM_UP_S, RunSpark, SharedSpark
from fencepost.sharing import SERVER_VARIABLE as SERVER
from fencepost.sharing import ServerRefused
from harness.common.errors import UnreadableInput
from harness.environment.cache import VARIABLE
from harness.environment.java import Java
from harness.results.verdict import Validity, Verdict
from harness.settings.options import Options

JAVA = Java(Path("java"), Path("java/bin/java"), 25, "25.0.2", "bundled")


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))


@pytest.mark.parametrize(
    ("rate", "time_limit_s", "lead_s"),
    [
        (100.0, 60.0, WARM_UP_S),
        (1500.0, 300.0, LARGE_WARM_UP_S),
        (2000.0, 40.0, 20.0),
        (10.0, 10.0, LEAST_S),
    ],
)
def test_spark_starts_earlier_for_a_large_run_but_not_before_its_middle(
    rate: float, time_limit_s: float, lead_s: float
) -> None:
    options: Any = SimpleNamespace(rate=rate, time_limit_s=time_limit_s)
    assert RunSpark(options, ExitStack()).lead_s() == lead_s


class FakeSparks:
    """Fakes of the shared Spark and of the run's own Spark. They record their calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[str] = []
        self.shared_starts = self.shared_checks = True
        monkeypatch.setattr(SharedSpark, "start", self._start_shared)
        monkeypatch.setattr(SharedSpark, "check", self._check_shared)
        monkeypatch.setattr(spark, "start_early", self._start_own)
        monkeypatch.setattr(spark, "open_evidence", lambda name, folder: None)
        monkeypatch.setattr(spark, "check_stored_run", self._check_own)

    def _start_shared(self, *_: object) -> None:
        self.made.append("start shared")
        if not self.shared_starts:
            raise ServerRefused("another Java")

    def _check_shared(self, *_: object) -> list[Any]:
        self.made.append("check shared")
        if not self.shared_checks:
            raise ServerRefused("Spark is gone")
        return [UNREADABLE if "damaged" in str(_) else VERDICT]

    def _start_own(self, *_: object) -> Any:
        self.made.append("start own")
        return SimpleNamespace(
            close=lambda: self.made.append("close own"), took_s=None, session=str, killed=False
        )

    def _check_own(self, *_: object) -> Verdict:
        self.made.append("check own")
        return VERDICT


VERDICT = Verdict("a", "shop", 7, Validity.VALID.json, "all well")
UNREADABLE = UnreadableInput("a table is gone")


def check(options: Options, folder: str = "a") -> Verdict:
    with ExitStack() as stack:
        spark = RunSpark(options, stack)
        spark.start(JAVA)
        return spark.check(Path(folder), lambda name: None)


@pytest.mark.parametrize(
    ("starts", "checks", "calls"),
    [
        (True, True, ["start shared", "check shared"]),
        (False, True, ["start shared", "start own", "check own", "close own"]),
        (True, False, ["start shared", "check shared", "start own", "check own", "close own"]),
    ],
)
def test_a_run_that_the_shared_spark_refuses_starts_its_own(
    starts: bool, checks: bool, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SERVER, "/nowhere/socket")
    fake_sparks = FakeSparks(monkeypatch)
    fake_sparks.shared_starts, fake_sparks.shared_checks = starts, checks
    assert check(Options()) == VERDICT
    assert fake_sparks.made == calls


def test_a_verdict_of_the_shared_spark_has_the_path_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SERVER, "/nowhere/socket")
    FakeSparks(monkeypatch)
    assert check(Options(), "store/b").history == "store/b"


def test_an_error_from_the_shared_spark_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SERVER, "/nowhere/socket")
    FakeSparks(monkeypatch)
    with pytest.raises(UnreadableInput, match="a table is gone"):
        check(Options(), "damaged")


@pytest.mark.parametrize(
    ("server", "options"), [("", Options()), ("/nowhere/socket", Options(rate=1_000_000))]
)
def test_a_large_run_and_a_run_without_a_server_start_their_own_spark(
    server: str, options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SERVER, server)
    fake_sparks = FakeSparks(monkeypatch)
    assert check(options) == VERDICT
    assert fake_sparks.made == ["start own", "check own", "close own"]
