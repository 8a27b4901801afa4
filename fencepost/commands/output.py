"""How the commands answer: the verdict for machines on standard output, or for people."""

import json
import sys
from itertools import chain
from pathlib import Path

from harness.common.errors import FencepostError
from harness.results.verdict import Verdict


def print_run(verdict: Verdict, folder: Path, command: str, *, as_json: bool) -> None:
    """The last lines of a run: verdict, reason, report, and the command that repeats it."""
    from reports.console import last_lines

    words = sys.stderr if as_json else sys.stdout
    for line in last_lines(verdict, folder, command):
        print(line, file=words)
    if as_json:
        print(verdict.line())


def print_history(history: str, answer: Verdict | FencepostError, *, as_json: bool, stored: bool) -> None:
    """One line of `check`: a history's verdict, or why there is none.

    `stored`: of a run of Fencepost's own. For people a line for each anomaly stands below, with its first
    example, what was allowed, and the reasons of an unknown verdict.
    """
    from harness.results.wording import printable

    name = printable(history, 4000)
    if isinstance(answer, FencepostError):
        told = (
            error_line(history, str(answer)) if as_json else f"{name}: no verdict: {printable(answer, 4000)}"
        )
        print(told)
    elif as_json:
        print(answer.line())
    else:
        from reports.console import WORDS, allowed_and_unknown, examples_of_history, first_examples

        print(f"{name}: {WORDS[answer.valid]}: {answer.summary}")
        examples = first_examples(answer) if stored else examples_of_history(answer)
        for line in chain(examples, allowed_and_unknown(answer)):
            print(f"  {line}")


def error_line(history: str, error: str) -> str:
    """The line of a history that cannot be read."""
    return json.dumps({"history": history, "valid": "unknown", "error": error}, ensure_ascii=False)
