"""What commands print: the progress of a run, and verdicts for people or as JSON."""

import json
import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TextIO

from fencepost.checks.run_folders import NamedHistory
from harness.common.documents import encode, json_text
from harness.common.errors import EnvironmentFailure, FencepostError, UsageError
from harness.common.progress import LineProgress, Progress
from harness.common.wording import printable
from harness.results.verdict import Verdict


def progress_for(stream: TextIO) -> Progress:
    """The progress that fits the stream."""
    if stream.isatty():
        from fencepost.terminal_progress import LiveProgress

        return LiveProgress(stream)
    return LineProgress(stream)


def print_run(verdict: Verdict, folder: Path, command: str, *, as_json: bool) -> None:
    """Print the last lines of a run: the verdict, its reason, the report, and the command that repeats the run."""
    from reports.console import last_lines

    stream = sys.stderr if as_json else sys.stdout
    for line in last_lines(verdict, folder, command):
        print(line, file=stream)
    if as_json:
        print_json(encode(verdict))


class InOrder:
    """Prints the results of histories in their order, each as soon as it and all before it are known.

    Args:
        histories: The histories, in the order of the output.
        as_json: Print each result as a line of JSON.
        progress: Hidden while a result is printed, and closed after the last one.
    """

    def __init__(self, histories: Sequence[NamedHistory], progress: Progress, *, as_json: bool) -> None:
        self._histories, self._progress, self._as_json = histories, progress, as_json
        self._results: dict[int, Verdict | FencepostError] = {}
        self._next = 0

    def add(self, number: int, result: Verdict | FencepostError) -> None:
        """Add the result of the history with this index. Print the results that are due."""
        self._results[number] = result
        due = []
        while self._next in self._results:
            due.append(self._next)
            self._next += 1
        self._print(due)
        if self._next == len(self._histories):
            self._progress.close()

    def print_rest(self) -> None:
        """Print the results that are known, although one before them is not: the check has failed."""
        self._print([number for number in sorted(self._results) if number >= self._next])

    def _print(self, numbers: Sequence[int]) -> None:
        if not numbers:
            return
        with self._progress.hidden():
            for number in numbers:
                history, result = self._histories[number], self._results.pop(number)
                stored = history.folder is not None
                print_history(history.history, result, as_json=self._as_json, stored=stored)
            sys.stdout.flush()


def print_json(body: object, *, indent: int | None = None) -> None:
    """Print a body as JSON. A terminal that lacks one of its characters gets the escape of JSON (`\\u2026`)."""
    text = json_text(body, indent)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(body, indent=indent)
    print(text)


def print_history(history: str, result: Verdict | FencepostError, *, as_json: bool, stored: bool) -> None:
    """Print the verdict on one history in a line, or why there is none.

    Without `as_json`, more lines follow: each anomaly with its first example, what was allowed, and the reasons of an
    unknown verdict.

    Args:
        stored: True for a stored run, false for an external history.
    """
    name = printable(history, 4000)
    if isinstance(result, FencepostError):
        if as_json:
            print_json({"history": history, "valid": "unknown", "error": str(result)})
        else:
            print(f"{name}: no verdict: {printable(result, 4000)}")
    elif as_json:
        print_json(encode(result))
    else:
        from reports.console import WORDS, allowed_and_unknown, examples_of_history, first_examples

        print(f"{name}: {WORDS[result.validity]}: {result.summary}")
        examples = first_examples(result) if stored else examples_of_history(result)
        for line in chain(examples, allowed_and_unknown(result)):
            print(f"  {line}")


def page_path(out: str) -> Path:
    """Return the path of a page. Raises `UsageError`, before anything is read, if it cannot be a file there."""
    page = Path(out)
    if not out or page.is_dir() or not page.parent.is_dir():
        raise UsageError(
            f"--out {out or 'with an empty name'} cannot be written: name a file in a folder that exists"
        )
    return page


def write_page(page: Path, html: str, *, as_json: bool) -> None:
    """Write a page, and print where it is. Raises `EnvironmentFailure` if it cannot be written."""
    try:
        page.write_text(html, encoding="utf-8")
    except OSError as error:
        raise EnvironmentFailure(f"{page} could not be written: {error.strerror or error}") from error
    print(f"page     {page}", file=sys.stderr if as_json else sys.stdout)
