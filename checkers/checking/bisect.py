"""One job for many, and an answer for each all the same: where the job fails, they are judged in parts."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from harness.common.errors import EnvironmentFailure, FencepostError
from harness.results.verdict import CheckResult

log = logging.getLogger(__name__)


class NumberedRun(Protocol):
    """What is judged: a run, as the tables have it."""

    @property
    def run(self) -> int:
        """Its number."""
        ...


AskedT = TypeVar("AskedT", bound=NumberedRun)
Answer = CheckResult | FencepostError


@dataclass(frozen=True)
class BatchResults:
    """What one job brought home."""

    by_run: Mapping[int, Answer]
    crashed: bool  # a check crashed, and nobody knows on whose account


def check_in_parts(
    asked: Sequence[AskedT], judge: Callable[[Sequence[AskedT]], BatchResults]
) -> dict[int, Answer]:
    """By number, what `judge` says; one on which the job fails spoils no other: it alone has the error.

    They are halved until the failure stands alone, so one bad one among hundreds costs a few jobs more.
    """
    try:
        answers = judge(asked)
    except EnvironmentFailure:
        raise  # Spark is gone: nothing more can be asked of it
    except FencepostError as error:
        if len(asked) == 1:
            return {asked[0].run: error}
        log.warning("%s; they are judged in parts", error)
    else:
        if not answers.crashed or len(asked) == 1:
            return dict(answers.by_run)
        log.warning("a check crashed on one of %d, which are judged in parts", len(asked))
    half = len(asked) // 2
    return {**check_in_parts(asked[:half], judge), **check_in_parts(asked[half:], judge)}
