"""One job for many, and an answer for each all the same: where the job fails, they are judged in parts."""

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.errors import PySparkException

from checkers.jvm import cause
from harness.errors import AnalysisFailed, EnvironmentFailure, FencepostError, UnreadableInput
from harness.verdict import Judgement

log = logging.getLogger(__name__)

SPARK_ERRORS = (PySparkException, Py4JJavaError)
ENDED = (
    "Spark ended during the analysis, perhaps for want of memory: judge again with more than it had, "
    "`fencepost check ... --spark-conf spark.driver.memory=8g` (by itself it has 1g, or 4g for "
    "a large history)"
)
UNREADABLE = re.compile(
    r"(?:FAILED_READ_FILE|error while reading file).*?(?:file://)?((?:\w+:/)?/\S+\.parquet)", re.DOTALL
)


class Numbered(Protocol):
    """What is judged: a run, as the tables have it."""

    @property
    def run(self) -> int:
        """Its number."""
        ...


AskedT = TypeVar("AskedT", bound=Numbered)
Answer = Judgement | FencepostError


@dataclass(frozen=True)
class Answers:
    """What one job brought home."""

    by_run: Mapping[int, Answer]
    crashed: bool  # a check crashed, and nobody knows on whose account


def each(asked: Sequence[AskedT], judge: Callable[[Sequence[AskedT]], Answers]) -> dict[int, Answer]:
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
    return {**each(asked[:half], judge), **each(asked[half:], judge)}


@contextmanager
def errors_of_ours() -> Iterator[None]:
    """Translate what Spark raises: a damaged table, a job that failed, a Spark that is gone."""
    try:
        yield
    except SPARK_ERRORS as error:
        if has_ended():
            raise EnvironmentFailure(ENDED) from error
        if path := UNREADABLE.search(str(error)):
            raise UnreadableInput(f"{path[1]} is damaged: a part of it cannot be read") from error
        raise AnalysisFailed(f"the analysis failed: {cause(str(error))}") from error
    except (Py4JError, ConnectionError, EOFError) as error:
        raise EnvironmentFailure(ENDED) from error


def has_ended() -> bool:
    """Whether Spark has ended by itself, as it does when its memory is full; whatever is asked of it then
    fails in ways of its own.
    """
    context = SparkContext._active_spark_context
    try:
        return context is not None and bool(context._jsc.sc().isStopped())
    except (Py4JError, OSError):
        return True
