"""From history files to verdicts: what their clients told, and nothing else, decides."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import AnalysisFailed, FencepostError, UnreadableInput
from harness.history_files.url import Url
from harness.verdict import Judgement, Validity, Verdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def judge_histories(
    spark: "SparkSession", files: Sequence[Path | Url], allow: frozenset[str]
) -> list[Verdict | FencepostError]:
    """A verdict for each file or folder of tables, all in one job, or why there is none."""
    from checkers.history_files import HistoryFile, read_histories
    from checkers.history_folders import read_folders
    from checkers.judge_told import judge_told
    from checkers.jvm import first_line
    from checkers.materialise import SPARK_ERRORS

    if not files:
        return []
    asked = [HistoryFile(run, path) for run, path in enumerate(files)]
    try:
        folders = [history for history in asked if history.is_folder]
        read = read_histories(spark, [history for history in asked if not history.is_folder])
        if folders:
            read = read.with_more(read_folders(spark, folders))
        sound = [history.run for history in asked if history.run not in read.errors]
        judged = judge_told(read.ops, read.micro, read.names, sound, allowed=allow) if sound else {}
    except SPARK_ERRORS as error:
        return [AnalysisFailed(f"the analysis failed: {first_line(error)}") for _ in files]
    return [
        UnreadableInput(str(read.errors[one.run]))
        if one.run in read.errors
        else conclude(one.path, judged[one.run])
        for one in asked
    ]


def conclude(path: Path | Url, judgement: Judgement) -> Verdict:
    """The verdict of one history. That nobody read what was sent proves nothing where nobody read at all."""
    from reports.summary import summary

    bad = {name for name, found in judgement.anomalies.items() if not found.allowed}
    nothing_read = "nothing read" in judgement.broken
    valid = Validity.UNKNOWN if judgement.broken else Validity.VALID
    if bad - {"unseen"} or (bad and not nothing_read):
        valid = Validity.INVALID
    reasons = list(judgement.broken.values())
    return Verdict(
        history=str(path),
        name=path.name.split(".")[0],
        seed=None,
        valid=valid,
        summary=summary(
            valid,
            judgement.anomalies,
            unknown_because=reasons,
            coverage=judgement.coverage,
            not_checked=judgement.not_checked,
        ),
        anomalies=judgement.anomalies,
        not_checked=judgement.not_checked,
        unknown_because=reasons,
        coverage=judgement.coverage,
        stats=judgement.stats,
    )
