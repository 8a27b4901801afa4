"""Check many runs in one Spark job. If the job fails, split the batch to isolate the bad run."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from harness.common.errors import EnvironmentFailure, FencepostError
from harness.results.verdict import CheckResult

log = logging.getLogger(__name__)


class NumberedRun(Protocol):
    """A run or a history to check."""

    @property
    def run(self) -> int:
        """The number of the run in the tables."""
        ...


RunT = TypeVar("RunT", bound=NumberedRun)
ResultOrError = CheckResult | FencepostError


@dataclass(frozen=True)
class BatchResults:
    """The results of one job."""

    by_run: Mapping[int, ResultOrError]
    crashed: bool  # a check crashed, and it is not known which run caused it


def check_in_parts(
    runs: Sequence[RunT], check: Callable[[Sequence[RunT]], BatchResults]
) -> dict[int, ResultOrError]:
    """Check the runs in one job. If the job fails or a check crashes, check each half in a separate job.

    One bad run among hundreds costs a few jobs more, and only it gets an error.

    Args:
        check: checks runs in one job

    Returns:
        By run number, the result or the error of that run.

    Raises:
        EnvironmentFailure: Spark is gone.
    """
    try:
        results = check(runs)
    except EnvironmentFailure:
        raise  # Spark is gone, so a smaller job would fail too
    except FencepostError as error:
        if len(runs) == 1:
            return {runs[0].run: error}
        log.warning("%s; checking the runs in smaller batches", error)
    else:
        if not results.crashed or len(runs) == 1:
            return dict(results.by_run)
        log.warning("a check crashed on one of %d runs; checking them in smaller batches", len(runs))
    half = len(runs) // 2
    return {**check_in_parts(runs[:half], check), **check_in_parts(runs[half:], check)}
