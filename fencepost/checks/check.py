"""`fencepost check`: stored runs and external histories, any number of them, each with its answer."""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fencepost.checks.chunks import prefetched, split_into_chunks
from fencepost.checks.decide import decide_runs, open_evidence
from fencepost.checks.evidence import LARGE_BYTES, Evidence
from fencepost.checks.histories import check_history_files
from fencepost.checks.run_folders import NamedHistory
from fencepost.sharing.client import ServerRefused
from fencepost.sharing.spark import SparkParts, SparkRequest, shared_spark
from harness.common.errors import EnvironmentFailure, ExitStatus, FencepostError, UnreadableInput
from harness.history_files.url import Url
from harness.record.run_tables import is_running
from harness.results.verdict import Validity, Verdict
from harness.runner.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

LARGE_TEXT_BYTES = 10 * LARGE_BYTES
"""Of history files, about a million rows: text takes more room than Parquet."""

Results = list[Verdict | FencepostError]


@dataclass(frozen=True)
class CheckRequest:
    """What Spark is to be started for."""

    runs: Sequence[Evidence]
    files: Sequence[Path | Url]
    allow: frozenset[str]
    update: bool = False  # write the verdicts of the runs anew
    blind: bool = False  # judge the runs as if their pipelines had kept no journals
    many: bool = False  # these are some of more runs than one job judges

    @property
    def large(self) -> bool:
        """Whether it is worth more memory, and a compiler that takes longer."""
        of_runs = sum(evidence.size_bytes for evidence in self.runs)
        of_files = sum(map(_text_bytes, self.files))
        return self.many or of_runs > LARGE_BYTES or of_files > LARGE_TEXT_BYTES


def _text_bytes(path: Path | Url) -> int:
    """About how much text a history is, or would be; what lies at a URL lies there because it is large."""
    if isinstance(path, Url):
        return LARGE_TEXT_BYTES + 1
    from harness.history_files.blocks import is_gzipped

    if path.is_dir():
        return (
            sum(table.stat().st_size for table in path.rglob("*.parquet") if table.is_file())
            * LARGE_TEXT_BYTES
            // LARGE_BYTES
        )
    return path.stat().st_size * (8 if is_gzipped(path) else 1)


OnResult = Callable[[int, Verdict | FencepostError], None]
"""Is told the number of a history, in the order given, and its answer."""


def ignore_result(number: int, answer: Verdict | FencepostError) -> None:
    """Tell nobody."""


def check(
    given: Sequence[NamedHistory],
    *,
    allow: frozenset[str],
    master: str,
    spark_conf: Mapping[str, str],
    progress: Progress,
    tell: Callable[[Results], None],
    found: OnResult = ignore_result,
    update: bool = False,
    blind: bool = False,
) -> None:
    """Tell a verdict or an error for each, in the order given; one that cannot be read stops no other.

    It is told before Spark is ended. Stored runs are judged so many at a time as memory permits
    (`fencepost.checks.chunks`):
    `found` is told of each as soon as its chunk is judged. `update`: write the verdict and the report of each stored
    run anew. `blind`: judge stored runs as if their pipelines had kept no journals.
    """
    with ExitStack() as stack:
        asked = CheckRequest([], [one.file for one in given if one.file], allow, update, blind)
        checking = _Check(given, asked, (master, spark_conf), progress, found, stack)
        checking.carry_out()
        tell([checking.answers[n] for n in range(len(given))])


class _Check:
    """One call. Spark is started when the first run or file is there that can be judged."""

    def __init__(
        self,
        given: Sequence[NamedHistory],
        asked: CheckRequest,
        spark: tuple[str, Mapping[str, str]],
        progress: Progress,
        found: OnResult,
        stack: ExitStack,
    ) -> None:
        self.answers: dict[int, Verdict | FencepostError] = {}
        self._given, self._asked, self._settings = given, asked, spark
        self._progress, self._found, self._stack = progress, found, stack
        self._spark: SparkSession | None = None
        self._folders = {n: one.folder for n, one in enumerate(given) if one.folder and not one.file}

    def carry_out(self) -> None:
        """All of it; raises `EnvironmentFailure` where Spark is gone."""
        for n, one in enumerate(self._given):
            if not one.file and not one.folder:
                self._note([n], [UnreadableInput(one.error or one.history)])
        numbers = list(self._folders)
        parts = [[numbers[k] for k in part] for part in split_into_chunks(list(self._folders.values()))]
        self._asked = replace(self._asked, many=len(parts) > 1)
        judged = 0
        for part, opened in prefetched(parts, self._opened):
            words = f"runs {judged + 1:,} to {judged + len(part):,} of {len(numbers):,}: "
            self._judge(part, opened, words if self._asked.many else "")
            judged += len(part)
        if self._asked.files:
            spark = self._started(self._asked)
            told = check_history_files(spark, self._asked.files, self._asked.allow, self._progress.phase)
            self._note([n for n, one in enumerate(self._given) if one.file], told)

    def _opened(self, numbers: Sequence[int]) -> list[Evidence | FencepostError]:
        opened = [_open(self._given[n].history, self._folders[n]) for n in numbers]
        return [replace(one, blind=self._asked.blind) if isinstance(one, Evidence) else one for one in opened]

    def _judge(self, numbers: Sequence[int], opened: Sequence[Evidence | FencepostError], words: str) -> None:
        """One chunk, in one job."""
        there = {n: one for n, one in zip(numbers, opened, strict=True) if isinstance(one, Evidence)}
        for n, one in zip(numbers, opened, strict=True):
            if isinstance(one, FencepostError):
                self._note([n], [one])
        if not there:
            return
        asked = replace(self._asked, runs=list(there.values()))
        told = None
        if self._spark is None:
            self._begin(asked)
            told = _ask_shared(asked, *self._settings, self._progress)
        if told is None:
            judged = decide_runs(
                self._started(asked), asked.runs, asked.allow, lambda name: self._progress.phase(words + name)
            )
            told = _all_kept(asked, judged)
        self._note(list(there), told)

    def _begin(self, asked: CheckRequest) -> None:
        """Say how many there are."""
        many = (len(self._folders) if asked.many else len(asked.runs)) + len(asked.files)
        self._progress.phase(f"judging {many:,} {'histories' if many > 1 else 'history'}")

    def _started(self, asked: CheckRequest) -> "SparkSession":
        from fencepost.checks.spark import open_spark

        if self._spark is None:
            if not asked.runs:
                self._begin(asked)
            master, spark_conf = self._settings
            self._spark = self._stack.enter_context(open_spark(master, spark_conf, large=asked.large))
        return self._spark

    def _note(self, numbers: Sequence[int], told: Sequence[Verdict | FencepostError]) -> None:
        for n, answer in zip(numbers, told, strict=True):
            named = replace(answer, history=self._given[n].history) if isinstance(answer, Verdict) else answer
            self.answers[n] = named
            self._found(n, named)


def _open(history: str, folder: Path) -> Evidence | FencepostError:
    """A stored run, or why it is none."""
    if is_running(folder):
        return UnreadableInput(f"{folder}: this run is still going on: judge it when it has ended")
    try:
        return open_evidence(history, folder)
    except FencepostError as error:
        return error


def _ask_shared(
    asked: CheckRequest, master: str, spark_conf: Mapping[str, str], progress: Progress
) -> Results | None:
    """The answers of the shared Spark, if there is one and it decides all of this."""
    from harness.environment.java import java

    shared = shared_spark()
    if shared is None or asked.files or asked.large or asked.blind:
        return None
    parts = SparkParts(str(java("auto").home), master, spark_conf)
    folders = [str(evidence.folder.absolute()) for evidence in asked.runs]
    try:
        judged = shared.decide(SparkRequest(parts, folders, sorted(asked.allow)), progress.phase)
    except ServerRefused as error:
        log.info("this check starts a Spark of its own: %s", error)
        return None
    return _all_kept(asked, judged)


def _all_kept(asked: CheckRequest, judged: Results) -> Results:
    return [_kept(evidence.folder, one, asked) for evidence, one in zip(asked.runs, judged, strict=True)]


def _kept(folder: Path, answer: Verdict | FencepostError, asked: CheckRequest) -> Verdict | FencepostError:
    """The answer, kept; or why it could not be, which stops no other."""
    try:
        if isinstance(answer, Verdict) and not asked.blind:
            _keep(folder, answer, asked)
    except FencepostError as error:
        return error
    return answer


def _keep(folder: Path, verdict: Verdict, asked: CheckRequest) -> None:
    """Write it, with its report, if that is asked for or the run has none; else say where the two differ."""
    from reports.html.page import write_report

    path = folder / "verdict.json"
    if asked.update or not path.exists():  # it was killed before
        write_report(folder, verdict, 0.0)  # first: who finds a verdict finds its report
        try:
            verdict.save(path)
        except OSError as error:
            if asked.update:
                raise EnvironmentFailure(f"{path} could not be written: {error.strerror}") from error
            log.warning("%s could not be written: %s", path, error.strerror)
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
