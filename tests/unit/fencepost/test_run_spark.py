"""Which Spark decides a run, and how long before its time limit it starts."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.sharing import run_spark
from fencepost.sharing.client import Refused
from fencepost.sharing.process import VARIABLE as SERVER
from fencepost.sharing.run_spark import LEAST_S, RunSpark
from fencepost.sharing.spark import SharedSpark
from fencepost.spark import LARGE_WARM_UP_S, WARM_UP_S, remember_warm_up, warm_up_s
from harness.environment.cache import VARIABLE
from harness.environment.java import Java
from harness.errors import UnreadableInput
from harness.settings.options import Options
from harness.verdict import Validity, Verdict

JAVA = Java(Path("java"), Path("java/bin/java"), 25, "25.0.2", "bundled")


@dataclass
class Pending:
    """A Spark that has come up, or has not."""

    took_s: float | None


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))


def remember(took_s: float | None, *, large: bool) -> None:
    pending: Any = Pending(took_s)
    remember_warm_up(JAVA, pending, large=large)


@pytest.mark.parametrize(
    ("took_s", "small", "large"),
    [(None, 12.0, 90.0), (1.0, 12.0, 12.0), (25.0, 25.0, 25.0), (120.0, 30.0, 120.0), (900.0, 30.0, 150.0)],
)
def test_it_is_as_long_as_the_last_one_of_its_size_took_within_bounds(
    took_s: float | None, small: float, large: float
) -> None:
    remember(took_s, large=False)
    assert (warm_up_s(JAVA, large=False), warm_up_s(JAVA, large=True)) == (small, LARGE_WARM_UP_S[0])
    remember(took_s, large=True)
    assert (warm_up_s(JAVA, large=False), warm_up_s(JAVA, large=True)) == (small, large)


def test_what_cannot_be_read_is_not_known(tmp_path: Path) -> None:
    remember(25.0, large=False)
    (found,) = tmp_path.iterdir()
    found.write_text("soon")
    assert warm_up_s(JAVA, large=False) == WARM_UP_S[0]


@pytest.mark.parametrize(
    ("rate", "time_limit_s", "before_s"),
    [
        (100.0, 60.0, WARM_UP_S[0]),
        (1500.0, 300.0, LARGE_WARM_UP_S[0]),
        (2000.0, 40.0, 20.0),
        (10.0, 10.0, LEAST_S),
    ],
)
def test_it_begins_by_the_size_of_the_run_and_half_a_run_early_at_most(
    rate: float, time_limit_s: float, before_s: float
) -> None:
    options: Any = SimpleNamespace(rate=rate, time_limit_s=time_limit_s)
    assert RunSpark(options, ExitStack()).lead_s(JAVA) == before_s


class Decisions:
    """In place of both Sparks of a run: which was started, and which decided."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[str] = []
        self.shared_starts = self.shared_decides = True
        monkeypatch.setattr(SharedSpark, "start", self._start_shared)
        monkeypatch.setattr(SharedSpark, "decide", self._decide_shared)
        monkeypatch.setattr(run_spark, "begin_early", self._start_own)
        monkeypatch.setattr(run_spark, "open_evidence", lambda name, folder: None)
        monkeypatch.setattr(run_spark, "judge_one", self._decide_own)

    def _start_shared(self, *_: object) -> None:
        self.made.append("start shared")
        if not self.shared_starts:
            raise Refused("another Java")

    def _decide_shared(self, *_: object) -> list[Any]:
        self.made.append("decide shared")
        if not self.shared_decides:
            raise Refused("Spark is gone")
        return [UNREADABLE if "damaged" in str(_) else VERDICT]

    def _start_own(self, *_: object) -> Any:
        self.made.append("start own")
        return SimpleNamespace(
            close=lambda: self.made.append("close own"), took_s=None, session=str, killed=False
        )

    def _decide_own(self, *_: object) -> Verdict:
        self.made.append("decide own")
        return VERDICT


VERDICT = Verdict("a", "shop", 7, Validity.VALID, "all well")
UNREADABLE = UnreadableInput("a table is gone")


def decided(options: Options, folder: str = "a") -> Verdict:
    with ExitStack() as stack:
        spark = RunSpark(options, stack)
        spark.start(JAVA)
        return spark.decide(Path(folder), lambda name: None)


@pytest.mark.parametrize(
    ("starts", "decides", "made"),
    [
        (True, True, ["start shared", "decide shared"]),
        (False, True, ["start shared", "start own", "decide own", "close own"]),
        (True, False, ["start shared", "decide shared", "start own", "decide own", "close own"]),
    ],
)
def test_a_run_that_the_shared_spark_refuses_starts_its_own(
    starts: bool, decides: bool, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SERVER, "/nowhere/socket")
    decisions = Decisions(monkeypatch)
    decisions.shared_starts, decisions.shared_decides = starts, decides
    assert decided(Options()) == VERDICT
    assert decisions.made == made


def test_a_verdict_of_the_shared_spark_has_the_name_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SERVER, "/nowhere/socket")
    Decisions(monkeypatch)
    assert decided(Options(), "store/b").history == "store/b"


def test_an_error_of_the_shared_spark_is_the_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SERVER, "/nowhere/socket")
    Decisions(monkeypatch)
    with pytest.raises(UnreadableInput, match="a table is gone"):
        decided(Options(), "damaged")


@pytest.mark.parametrize(
    ("server", "options"), [("", Options()), ("/nowhere/socket", Options(rate=1_000_000))]
)
def test_a_large_run_and_one_without_a_server_have_a_spark_of_their_own(
    server: str, options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SERVER, server)
    decisions = Decisions(monkeypatch)
    assert decided(options) == VERDICT
    assert decisions.made == ["start own", "decide own", "close own"]
