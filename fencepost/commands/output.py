"""Print verdicts, for people or as JSON."""

import json
import sys
from itertools import chain
from pathlib import Path

from harness.common.errors import EnvironmentFailure, FencepostError, UsageError
from harness.results.verdict import Verdict


def print_run(verdict: Verdict, folder: Path, command: str, *, as_json: bool) -> None:
    """Print the last lines of a run: the verdict, its reason, the report, and the command that repeats the run."""
    from reports.console import last_lines

    stream = sys.stderr if as_json else sys.stdout
    for line in last_lines(verdict, folder, command):
        print(line, file=stream)
    if as_json:
        print(verdict.line())


def print_history(history: str, result: Verdict | FencepostError, *, as_json: bool, stored: bool) -> None:
    """Print the verdict on one history in a line, or why there is none.

    Without `as_json`, more lines follow: each anomaly with its first example, what was allowed, and the reasons of an
    unknown verdict.

    Args:
        stored: True for a stored run, false for an external history.
    """
    from harness.results.wording import printable

    name = printable(history, 4000)
    if isinstance(result, FencepostError):
        line = (
            error_line(history, str(result)) if as_json else f"{name}: no verdict: {printable(result, 4000)}"
        )
        print(line)
    elif as_json:
        print(result.line())
    else:
        from reports.console import WORDS, allowed_and_unknown, examples_of_history, first_examples

        print(f"{name}: {WORDS[result.valid]}: {result.summary}")
        examples = first_examples(result) if stored else examples_of_history(result)
        for line in chain(examples, allowed_and_unknown(result)):
            print(f"  {line}")


def error_line(history: str, error: str) -> str:
    """The JSON line for a history that cannot be read."""
    return json.dumps({"history": history, "valid": "unknown", "error": error}, ensure_ascii=False)


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
