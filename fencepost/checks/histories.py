"""From history files to verdicts. The operations in the file are the only evidence."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from checkers.histories.check import check_files
from checkers.histories.files import Url
from fencepost.checks.verdict_rules import decide_external
from harness.common.errors import FencepostError
from harness.results.verdict import CheckResult, Verdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from checkers.spark.session import StartingSpark


def check_history_files(
    spark: "SparkSession | StartingSpark",
    files: Sequence[Path | Url],
    allow: frozenset[str],
    phase: Callable[[str], None] = lambda name: None,
) -> list[Verdict | FencepostError]:
    """Check all files and folders of tables together. Returns for each its verdict, or the error that prevented one.

    `phase` is called with the name of each step when it begins.
    """
    results = check_files(spark, dict(enumerate(files)), allow, phase)
    return [
        decide_external(path, result) if isinstance(result, CheckResult) else result
        for run, path in enumerate(files)
        for result in (results[run],)
    ]
