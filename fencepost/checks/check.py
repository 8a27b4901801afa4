"""`fencepost check`: check any number of stored runs and external histories."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec import structs

from checkers.histories.files import Url, is_gzipped
from fencepost.checks.check_stored_runs import check_stored_runs, open_evidence
from fencepost.checks.evidence import LARGE_BYTES, Evidence, size_bytes
from fencepost.checks.histories import check_history_files
from fencepost.checks.run_folders import NamedHistory
from fencepost.checks.run_report import write_run_report
from fencepost.checks.spark import SparkParts, SparkRequest, shared_spark, starting_spark
from fencepost.sharing import ServerRefused
from harness.common.errors import (
    AnalysisFailed,
    EnvironmentFailure,
    ExitStatus,
    FencepostError,
    UnreadableInput,
    value_or_error,
)
from harness.common.progress import Progress
from harness.environment.java import find_java
from harness.record.run_tables import require_ended
from harness.results.verdict import Validity, Verdict

CHUNK_BYTES = 48 * 1024 * 1024
"""Maximum Parquet size of a chunk, about five million rows. One job checks a chunk. Memory holds one chunk."""
CHUNK_RUNS = 250
"""Maximum runs of a chunk. The driver holds the metadata of each run, and Spark has a task for each of their files."""

T = TypeVar("T")
U = TypeVar("U")


def split_into_chunks(
    folders: Sequence[Path], most_bytes: int = CHUNK_BYTES, most_runs: int = CHUNK_RUNS
) -> list[list[int]]:
    """Split the runs into chunks, in their order. Returns indices of `folders`.

    A run that is larger than `most_bytes` is alone in its chunk.
    """
    chunks: list[list[int]] = []
    chunk_bytes = 0
    for n, folder in enumerate(folders):
        size = size_bytes(folder)
        if not chunks or chunk_bytes + size > most_bytes or len(chunks[-1]) >= most_runs:
            chunks.append([])
            chunk_bytes = 0
        chunks[-1].append(n)
        chunk_bytes += size
    return chunks


def prefetched(parts: Sequence[T], act: Callable[[T], U]) -> Iterator[tuple[T, U]]:
    """Yield each part with the result of `act`. Meanwhile a thread calls `act` for the next part only."""
    with ThreadPoolExecutor(1, thread_name_prefix="ahead") as pool:
        pending = [pool.submit(act, part) for part in parts[:1]]
        for n, part in enumerate(parts):
            result = pending.pop().result()
            pending += [pool.submit(act, following) for following in parts[n + 1 : n + 2]]
            yield part, result


if TYPE_CHECKING:
    from checkers.spark.session import StartingSpark

log = logging.getLogger(__name__)

TEXT_OF_PARQUET = 10
"""The size of a history as text, compared with its size as Parquet."""
LARGE_TEXT_BYTES = TEXT_OF_PARQUET * LARGE_BYTES
"""Size of history files with about a million rows. Spark gets only what is unusual in them, which may be all of it."""

Result = Verdict | FencepostError
Results = list[Result]


@dataclass(frozen=True)
class CheckRequest:
    """The histories of one call of `check`, and its options."""

    runs: Sequence[Evidence]
    files: Sequence[Path | Url]
    allow: frozenset[str]
    update: bool = False  # write the verdicts of the runs again
    blind: bool = False  # check the runs as if their pipelines had kept no journals
    many: bool = False  # there are more runs than one job checks

    @property
    def large(self) -> bool:
        """True if Spark should get more memory, and a compiler that optimises more but takes longer."""
        run_bytes = sum(evidence.size_bytes for evidence in self.runs)
        file_bytes = sum(map(_text_bytes, self.files))
        return self.many or run_bytes > LARGE_BYTES or file_bytes > LARGE_TEXT_BYTES


def _text_bytes(path: Path | Url) -> int:
    """Estimated size of a history as uncompressed text. A history at a URL is assumed to be large."""
    if isinstance(path, Url):
        return LARGE_TEXT_BYTES + 1

    if path.is_dir():
        tables = (table for table in path.rglob("*.parquet") if table.is_file())
        return TEXT_OF_PARQUET * sum(table.stat().st_size for table in tables)
    return path.stat().st_size * (8 if is_gzipped(path) else 1)


OnResult = Callable[[int, Result], None]
"""Called with the index of a history in the arguments, and its result."""


def ignore_result(number: int, result: Result) -> None:
    """The default `on_result`: do nothing."""


def check(
    histories: Sequence[NamedHistory],
    *,
    allow: frozenset[str],
    master: str,
    spark_conf: Mapping[str, str],
    progress: Progress,
    on_result: OnResult = ignore_result,
    update: bool = False,
    blind: bool = False,
) -> Results:
    """Check all histories. Each gets a verdict or an error, and an error does not stop the others.

    Returns the results in the order of `histories`.

    Stored runs are checked in chunks, because memory is limited (`fencepost.checks.check`).

    Args:
        allow: Anomalies that do not make a history invalid.
        on_result: Called for each history as soon as its chunk has been checked, before Spark ends.
        update: Write the verdict and the report of each stored run again.
        blind: Check stored runs as if their pipelines had kept no journals.
    """
    with ExitStack() as stack:
        files = [history.file for history in histories if history.file]
        request = CheckRequest([], files, allow, update, blind)
        checking = _Check(histories, request, (master, spark_conf), progress, on_result, stack)
        checking.run()
        return [checking.results[n] for n in range(len(histories))]


class _Check:
    """One call of `check`. Spark starts when the first run or file can be checked."""

    def __init__(
        self,
        histories: Sequence[NamedHistory],
        request: CheckRequest,
        spark: tuple[str, Mapping[str, str]],
        progress: Progress,
        on_result: OnResult,
        stack: ExitStack,
    ) -> None:
        self.results: dict[int, Result] = {}
        self._histories, self._request, self._settings = histories, request, spark
        self._progress, self._on_result, self._stack = progress, on_result, stack
        self._spark: StartingSpark | None = None
        self._folders = {
            n: history.folder for n, history in enumerate(histories) if history.folder and not history.file
        }

    def run(self) -> None:
        """Check everything. Raises `EnvironmentFailure` if Spark has ended."""
        for n, history in enumerate(self._histories):
            if not history.file and not history.folder:
                self._note([n], [UnreadableInput(history.error or history.history)])
        numbers = list(self._folders)
        chunks = [[numbers[k] for k in chunk] for chunk in split_into_chunks(list(self._folders.values()))]
        self._request = replace(self._request, many=len(chunks) > 1)
        checked = 0
        for chunk, evidence_or_errors in prefetched(chunks, self._open_all):
            prefix = f"runs {checked + 1:,} to {checked + len(chunk):,} of {len(numbers):,}: "
            self._check_chunk(chunk, evidence_or_errors, prefix if self._request.many else "")
            checked += len(chunk)
        if self._request.files:
            spark = self._ensure_starting(self._request)
            results = check_history_files(
                spark, self._request.files, self._request.allow, self._progress.phase
            )
            self._note([n for n, history in enumerate(self._histories) if history.file], results)

    def _open_all(self, numbers: Sequence[int]) -> list[Evidence | FencepostError]:
        evidence_or_errors = [_open(self._histories[n].history, self._folders[n]) for n in numbers]
        return [
            replace(run, blind=self._request.blind) if isinstance(run, Evidence) else run
            for run in evidence_or_errors
        ]

    def _check_chunk(
        self, numbers: Sequence[int], evidence_or_errors: Sequence[Evidence | FencepostError], prefix: str
    ) -> None:
        """Check the runs of one chunk in one job. The name of each phase begins with `prefix`."""
        runs = {
            n: run for n, run in zip(numbers, evidence_or_errors, strict=True) if isinstance(run, Evidence)
        }
        for n, run in zip(numbers, evidence_or_errors, strict=True):
            if isinstance(run, FencepostError):
                self._note([n], [run])
        if not runs:
            return
        request = replace(self._request, runs=list(runs.values()))
        results = None
        if self._spark is None:
            self._show_count(request)
            results = _check_with_shared_spark(request, *self._settings, self._progress)
        if results is None:
            results = check_stored_runs(
                self._ensure_starting(request).session(),
                request.runs,
                request.allow,
                lambda name: self._progress.phase(prefix + name),
            )
            results = _save_all(request, results)
        self._note(list(runs), results)

    def _show_count(self, request: CheckRequest) -> None:
        count = (len(self._folders) if request.many else len(request.runs)) + len(request.files)
        self._progress.phase(f"checking {count:,} {'histories' if count > 1 else 'history'}")

    def _ensure_starting(self, request: CheckRequest) -> "StartingSpark":
        if self._spark is None:
            if not request.runs:
                self._show_count(request)
            master, spark_conf = self._settings
            self._spark = self._stack.enter_context(starting_spark(master, spark_conf, large=request.large))
        return self._spark

    def _note(self, numbers: Sequence[int], results: Sequence[Result]) -> None:
        for n, result in zip(numbers, results, strict=True):
            if isinstance(result, Verdict):
                result = structs.replace(result, history=self._histories[n].history)  # noqa: PLW2901
            self.results[n] = result
            self._on_result(n, result)


def _open(history: str, folder: Path) -> Evidence | FencepostError:
    def open_ended() -> Evidence:
        require_ended(folder)
        return open_evidence(history, folder)

    return value_or_error(open_ended, UnreadableInput, lambda error: f"{folder} cannot be read ({error})")


def _check_with_shared_spark(
    request: CheckRequest, master: str, spark_conf: Mapping[str, str], progress: Progress
) -> Results | None:
    """Check the runs with the shared Spark. None if there is none, or if it cannot check these runs."""
    shared = shared_spark()
    if shared is None or request.files or request.large or request.blind:
        return None
    parts = SparkParts(str(find_java("auto").home), master, spark_conf)
    folders = [str(evidence.folder.absolute()) for evidence in request.runs]
    try:
        results = shared.check(SparkRequest(parts, folders, sorted(request.allow)), progress.phase)
    except ServerRefused as error:
        log.info("this check starts its own Spark: %s", error)
        return None
    return _save_all(request, results)


def _save_all(request: CheckRequest, results: Results) -> Results:
    return [_save(run.folder, result, request) for run, result in zip(request.runs, results, strict=True)]


def _save(folder: Path, result: Result, request: CheckRequest) -> Result:
    """Save a verdict. If that fails, return the error in its place, so that it does not stop the other runs."""

    def save() -> Result:
        if isinstance(result, Verdict) and not request.blind:
            _write_or_compare(folder, result, request)
        return result

    return value_or_error(
        save, AnalysisFailed, lambda error: f"the verdict of {folder} was not saved ({error})"
    )


def _write_or_compare(folder: Path, verdict: Verdict, request: CheckRequest) -> None:
    """Write the verdict and its report with `--update`, or if the run has none. Otherwise warn if they differ."""
    path = folder / "verdict.json"
    if request.update or not path.exists():  # without a verdict, the run was killed before it was checked
        write_run_report(folder, verdict, 0.0)  # first, so that each verdict has a report
        try:
            verdict.save(path)
        except OSError as error:
            if request.update:
                raise EnvironmentFailure(f"{path} could not be written: {error.strerror}") from error
            log.warning("%s could not be written: %s", path, error.strerror)
    elif not request.allow and (stored := _stored_validity(path)) is not verdict.validity:
        new = verdict.validity.name.lower()
        text = (
            "cannot be read" if stored is None else f"says {stored.name.lower()}, and this check says {new}"
        )
        log.warning("%s %s: `check --update` writes it and its report again", path, text)


def _stored_validity(path: Path) -> Validity | None:
    try:
        return Verdict.load(path).validity
    except UnreadableInput:
        return None


def status_of(result: Result) -> ExitStatus:
    """The exit status for a single history."""
    return result.validity.exit_status if isinstance(result, Verdict) else result.exit_status
