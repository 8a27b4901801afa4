"""`fencepost check`: stored runs and histories from elsewhere, any number of them, each with its answer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fencepost.drawing import draw_report
from fencepost.histories import judge_histories
from fencepost.judge import LARGE_BYTES, Evidence, judge, open_evidence
from fencepost.stores import Given
from harness.errors import ExitStatus, FencepostError, UnreadableInput
from harness.history_files.url import Url
from harness.progress import Progress
from harness.verdict import Verdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LARGE_TEXT_BYTES = 10 * LARGE_BYTES
"""Of history files, about a million rows: text takes more room than Parquet."""

Answers = list[Verdict | FencepostError]


@dataclass(frozen=True)
class Asked:
    """What Spark is to be started for."""

    runs: Sequence[Evidence]
    files: Sequence[Path | Url]
    allow: frozenset[str]

    @property
    def large(self) -> bool:
        """Whether it is worth more memory, and a compiler that takes longer."""
        of_runs = sum(evidence.size_bytes for evidence in self.runs)
        of_files = sum(map(_text_bytes, self.files))
        return of_runs > LARGE_BYTES or of_files > LARGE_TEXT_BYTES


def _text_bytes(path: Path | Url) -> int:
    """About how much text a history is, or would be; what lies at a URL lies there because it is large."""
    if isinstance(path, Url):
        return LARGE_TEXT_BYTES + 1
    if path.is_dir():
        return (
            sum(table.stat().st_size for table in path.rglob("*.parquet") if table.is_file())
            * LARGE_TEXT_BYTES
            // LARGE_BYTES
        )
    return path.stat().st_size * (8 if path.suffix == ".gz" else 1)


def check(
    given: Sequence[Given],
    *,
    allow: frozenset[str],
    master: str,
    spark_conf: Mapping[str, str],
    progress: Progress,
    tell: Callable[[Answers], None],
) -> None:
    """Tell a verdict or an error for each, in the order given; one that cannot be read stops no other.

    It is told before Spark is ended.
    """
    from fencepost.spark import starting

    opened = [_open(one) for one in given]
    asked = Asked(
        runs=[one for one in opened if isinstance(one, Evidence)],
        files=[one for one in opened if isinstance(one, Path | Url)],
        allow=allow,
    )
    many = len(asked.runs) + len(asked.files)
    if not many:
        tell([one for one in opened if isinstance(one, FencepostError)])
        return
    progress.phase(f"judging {many} {'histories' if many > 1 else 'history'}")
    with starting(master, spark_conf, large=asked.large) as spark:
        of_runs, of_files = _judge(spark, asked, progress)
        runs, files = iter(of_runs), iter(of_files)
        answers: Answers = []
        for one, found in zip(given, opened, strict=True):
            answer = found if isinstance(found, FencepostError) else next(files if one.file else runs)
            answers.append(replace(answer, history=one.history) if isinstance(answer, Verdict) else answer)
        tell(answers)


def _open(given: Given) -> Evidence | Path | Url | FencepostError:
    """A stored run, a file, or why it is neither."""
    if given.file:
        return given.file
    if given.folder is None:
        return UnreadableInput(given.error or given.history)
    try:
        return open_evidence(given.history, given.folder)
    except FencepostError as error:
        return error


def _judge(spark: "SparkSession", asked: Asked, progress: Progress) -> tuple[Answers, Answers]:
    """All stored runs in one job, and all files in another."""
    of_runs = judge(spark, asked.runs, asked.allow)
    for evidence, verdict in zip(asked.runs, of_runs, strict=True):
        if isinstance(verdict, Verdict) and not (evidence.folder / "verdict.json").exists():
            (evidence.folder / "verdict.json").write_text(verdict.line() + "\n")  # it was killed before
            draw_report(evidence.folder, verdict, 0.0)
    return of_runs, judge_histories(spark, asked.files, asked.allow, progress.phase)


def status_of(answer: Verdict | FencepostError) -> ExitStatus:
    """What one history alone would return to the shell."""
    return answer.valid.exit_status if isinstance(answer, Verdict) else answer.exit_status
