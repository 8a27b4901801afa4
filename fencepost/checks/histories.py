"""From history files to verdicts. The operations in the file are the only evidence."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING

from fencepost.checks.verdict_rules import decide_external
from harness.common.errors import FencepostError, UnreadableInput
from harness.history_files.url import Url
from harness.results.reasons import ReasonCode
from harness.results.verdict import CheckResult, Verdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from checkers.checking.bisect import BatchResults
    from checkers.external.read_files import HistoryFile


def check_history_files(
    spark: "SparkSession",
    files: Sequence[Path | Url],
    allow: frozenset[str],
    phase: Callable[[str], None] = lambda name: None,
) -> list[Verdict | FencepostError]:
    """Check all files and folders of tables in one job. Returns for each its verdict, or the error that prevented one.

    `phase` is called with the name of each step when it begins.
    """
    results = check_each_file(spark, dict(enumerate(files)), allow, phase)
    return [
        decide_external(path, result) if isinstance(result, CheckResult) else result
        for run, path in enumerate(files)
        for result in (results[run],)
    ]


def check_each_file(
    spark: "SparkSession",
    files: Mapping[int, Path | Url],
    allow: frozenset[str],
    phase: Callable[[str], None] = lambda name: None,
) -> Mapping[int, CheckResult | FencepostError]:
    """Check files or folders of tables. Returns for each number the result, or the error that prevented one."""
    from checkers.checking.bisect import check_in_parts
    from checkers.external.read_files import HistoryFile

    histories = [HistoryFile(run, path) for run, path in files.items()]
    if not histories:
        return {}
    return check_in_parts(histories, partial(_check_files_in_one_job, spark, allow, phase))


def _check_files_in_one_job(
    spark: "SparkSession",
    allow: frozenset[str],
    phase: Callable[[str], None],
    histories: "Sequence[HistoryFile]",
) -> "BatchResults":
    """Check all histories in one job. Raises only subclasses of `FencepostError`."""
    from checkers.checking.bisect import BatchResults
    from checkers.checking.external_histories import check_histories
    from checkers.external.read_files import Histories, read_histories
    from checkers.external.read_folders import read_folders
    from checkers.spark.errors import translate_spark_errors

    phase("reading")
    with translate_spark_errors():
        folders = [history for history in histories if history.is_folder]
        texts = [history for history in histories if not history.is_folder]
        readers = ((read_histories, texts), (read_folders, folders))
        read = reduce(Histories.with_more, [reader(spark, part) for reader, part in readers if part])
        readable = [history.run for history in histories if history.run not in read.errors]
        checked = {}
        if readable:
            checked = check_histories(read.ops, read.micro, read.names, readable, allowed=allow, phase=phase)
    unread = {run: UnreadableInput(str(error)) for run, error in read.errors.items()}
    results = (result for result in checked.values() if isinstance(result, CheckResult))
    crashed = any(set(result.broken) - {ReasonCode.NOTHING_READ} for result in results)
    return BatchResults({**checked, **unread}, crashed)
