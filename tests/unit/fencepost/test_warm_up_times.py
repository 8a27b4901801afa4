"""How long before its time limit a run begins its Spark."""

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.judges.for_a_run import LEAST_S, OwnJudge
from fencepost.spark import LARGE_WARM_UP_S, WARM_UP_S, remember_warm_up, warm_up_s
from harness.environment.cache import VARIABLE
from harness.environment.java import Java

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
    prepared: Any = SimpleNamespace(java=JAVA)
    stack: Any = None
    assert OwnJudge(options, stack).by_s(prepared) == before_s
