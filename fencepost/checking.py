"""`fencepost check`: stored runs and external histories, any number of them, each with its answer."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fencepost.drawing import draw_report
from fencepost.evidence import LARGE_BYTES, Evidence
from fencepost.histories import judge_histories
from fencepost.judges.client import Refused, shared_client
from fencepost.judges.protocol import Request
from fencepost.judging import judge, open_evidence
from fencepost.stores import Given
from harness.errors import EnvironmentFailure, ExitStatus, FencepostError, UnreadableInput
from harness.history_files.url import Url
from harness.record.store import goes_on
from harness.runner.progress import Progress
from harness.verdict import Validity, Verdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

LARGE_TEXT_BYTES = 10 * LARGE_BYTES
"""Of history files, about a million rows: text takes more room than Parquet."""

Answers = list[Verdict | FencepostError]


@dataclass(frozen=True)
class Asked:
    """What Spark is to be started for."""

    runs: Sequence[Evidence]
    files: Sequence[Path | Url]
    allow: frozenset[str]
    update: bool = False  # write the verdicts of the runs anew

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
    update: bool = False,
) -> None:
    """Tell a verdict or an error for each, in the order given; one that cannot be read stops no other.

    It is told before Spark is ended. `update`: write the verdict and the report of each stored run anew.
    """
    from fencepost.spark import starting

    opened = [_open(one) for one in given]
    asked = Asked(
        runs=[one for one in opened if isinstance(one, Evidence)],
        files=[one for one in opened if isinstance(one, Path | Url)],
        allow=allow,
        update=update,
    )
    many = len(asked.runs) + len(asked.files)
    if not many:
        tell([one for one in opened if isinstance(one, FencepostError)])
        return
    progress.phase(f"judging {many} {'histories' if many > 1 else 'history'}")
    if (shared := _ask_shared(asked, master, spark_conf, progress)) is not None:
        tell(_in_order(given, opened, shared, []))
        return
    with starting(master, spark_conf, large=asked.large) as spark:
        tell(_in_order(given, opened, *_judge(spark, asked, progress)))


def _in_order(
    given: Sequence[Given],
    opened: Sequence[Evidence | Path | Url | FencepostError],
    of_runs: Answers,
    of_files: Answers,
) -> Answers:
    """What was found out, in the order in which it was asked."""
    runs, files = iter(of_runs), iter(of_files)
    answers: Answers = []
    for one, found in zip(given, opened, strict=True):
        answer = found if isinstance(found, FencepostError) else next(files if one.file else runs)
        answers.append(replace(answer, history=one.history) if isinstance(answer, Verdict) else answer)
    return answers


def _open(given: Given) -> Evidence | Path | Url | FencepostError:
    """A stored run, a file, or why it is neither."""
    if given.file:
        return given.file
    if given.folder is None:
        return UnreadableInput(given.error or given.history)
    if goes_on(given.folder):
        return UnreadableInput(f"{given.folder}: this run is still going on: judge it when it has ended")
    try:
        return open_evidence(given.history, given.folder)
    except FencepostError as error:
        return error


def _ask_shared(
    asked: Asked, master: str, spark_conf: Mapping[str, str], progress: Progress
) -> Answers | None:
    """What the shared judge says, if there is one and it judges all of this."""
    from harness.environment.java import java

    shared = shared_client()
    if shared is None or asked.files or asked.large:
        return None
    runs = ((evidence.history, evidence.folder) for evidence in asked.runs)
    try:
        judged = shared.judge(Request.of(java("auto"), master, spark_conf, runs, asked.allow), progress.phase)
    except Refused as error:
        log.info("a Spark of one's own is started: %s", error)
        return None
    return _all_kept(asked, judged)


def _judge(spark: "SparkSession", asked: Asked, progress: Progress) -> tuple[Answers, Answers]:
    """All stored runs in one job, and all files in another."""
    judged = judge(spark, asked.runs, asked.allow, progress.phase)
    return _all_kept(asked, judged), judge_histories(spark, asked.files, asked.allow, progress.phase)


def _all_kept(asked: Asked, judged: Answers) -> Answers:
    return [_kept(evidence.folder, one, asked) for evidence, one in zip(asked.runs, judged, strict=True)]


def _kept(folder: Path, answer: Verdict | FencepostError, asked: Asked) -> Verdict | FencepostError:
    """The answer, kept; or why it could not be, which stops no other."""
    try:
        if isinstance(answer, Verdict):
            _keep(folder, answer, asked)
    except FencepostError as error:
        return error
    return answer


def _keep(folder: Path, verdict: Verdict, asked: Asked) -> None:
    """Write it, with its report, if that is asked for or the run has none; else say where the two differ."""
    path = folder / "verdict.json"
    if asked.update or not path.exists():  # it was killed before
        try:
            path.write_text(verdict.line() + "\n")
        except OSError as error:
            if asked.update:
                raise EnvironmentFailure(f"{path} could not be written: {error.strerror}") from error
            log.warning("%s could not be written: %s", path, error.strerror)
        else:
            draw_report(folder, verdict, 0.0)
    elif not asked.allow and (stored := _stored(path)) is not verdict.valid:
        said = "nothing that can be read" if stored is None else stored.name.lower()
        log.warning("%s and the report beside it say %s: `check --update` writes both anew", path, said)


def _stored(path: Path) -> Validity | None:
    try:
        return Verdict.load(path).valid
    except UnreadableInput:
        return None


def status_of(answer: Verdict | FencepostError) -> ExitStatus:
    """What one history alone would return to the shell."""
    return answer.valid.exit_status if isinstance(answer, Verdict) else answer.exit_status
