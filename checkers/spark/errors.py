"""Translate the errors of Spark: a damaged table, a job that failed, or a Spark that has ended."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.errors import PySparkException

from checkers.spark.driver import last_cause
from harness.common.errors import AnalysisFailed, EnvironmentFailure, UnreadableInput

SPARK_ERRORS = (PySparkException, Py4JJavaError)
ENDED = (
    "Spark ended during the analysis, perhaps because it had too little memory (by default 1g, or 4g for a large "
    "history): check again with more memory, `fencepost check ... --spark-conf spark.driver.memory=8g`"
)
UNREADABLE = re.compile(
    r"(?:FAILED_READ_FILE|error while reading file).*?(?:file://)?((?:\w+:/)?/\S+\.parquet)", re.DOTALL
)


@contextmanager
def translate_spark_errors() -> Iterator[None]:
    """Translate the exceptions of Spark and of files.

    Raises:
        UnreadableInput: a table is damaged.
        AnalysisFailed: a job failed, or a file could not be written, for example because the disk is full.
        EnvironmentFailure: Spark is gone.
    """
    try:
        yield
    except SPARK_ERRORS as error:
        if has_ended():
            raise EnvironmentFailure(ENDED) from error
        if path := UNREADABLE.search(str(error)):
            raise UnreadableInput(f"{path[1]} is damaged: a part of it cannot be read") from error
        raise AnalysisFailed(f"the analysis failed: {last_cause(str(error))}") from error
    except (Py4JError, ConnectionError, EOFError) as error:
        raise EnvironmentFailure(ENDED) from error
    except OSError as error:
        raise AnalysisFailed(f"the analysis failed: {error}") from error


def has_ended() -> bool:
    """True if Spark has ended by itself, for example because it ran out of memory. Every later call then fails with a
    different error.
    """
    context = SparkContext._active_spark_context
    try:
        return context is not None and bool(context._jsc.sc().isStopped())
    except (Py4JError, OSError):
        return True
