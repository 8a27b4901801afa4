"""`fencepost explain`."""

import difflib
import textwrap

import click

from fencepost import registry
from harness.common.errors import ExitStatus, UsageError
from harness.common.names import on_one_line
from harness.results.reasons import CODES, ReasonCode, remedy_of

WIDTH = 100


@click.command("explain", short_help="Explain a reason code, or an anomaly.")
@click.argument("names", metavar="CODE|ANOMALY...", nargs=-1, required=True)
def command(names: tuple[str, ...]) -> ExitStatus:
    """Explain why a run is unknown, why a check was left out, or what an anomaly is.

    CODE is the code of a reason in verdict.json: the answer is what it means, when it is said, and what to do.
    ANOMALY is the name of an anomaly: the answer is its definition, an example, and what the check cannot see.
    `fencepost list reasons` and `fencepost list anomalies` print all names.

    \b
    Example:
      fencepost explain not-drained
      fencepost explain lost-input
    """
    anomalies = registry.anomalies()
    for name in names:
        if name not in CODES and name not in anomalies:
            raise UsageError(_unknown(name, [*CODES, *anomalies]))
    told = []
    for name in dict.fromkeys(names):  # one name may be both: stalled
        told += [_reason(CODES[name])] if name in CODES else []
        told += [_anomaly(name)] if name in anomalies else []
    print("\n\n".join(told))
    return ExitStatus.VALID


def _reason(code: ReasonCode) -> str:
    """Return what is known of a reason, for a terminal."""
    keys = " or ".join(consequence.key for consequence in code.consequences)
    lines = [f"{code}, a reason in {keys}", "", *_wrapped("", code.meaning), ""]
    for label, words in (("when", code.when), ("what to do", remedy_of(code))):
        lines += _wrapped(f"{label:<12}", words)
    return "\n".join([*lines, f"{'page':<12}docs/reasons.md#{code}"])


def _anomaly(name: str) -> str:
    """Return the definition of an anomaly, its example and its blind spot, for a terminal."""
    from checkers.catalogue import catalogue
    from checkers.pages import summarize

    return next(summarize(one) for one in catalogue() if one.name == name)


def _wrapped(label: str, words: str) -> list[str]:
    """Return the lines of `words`, beside a label."""
    indent = " " * len(label)
    return textwrap.wrap(words, WIDTH, initial_indent=label, subsequent_indent=indent, break_on_hyphens=False)


def _unknown(name: str, known: list[str]) -> str:
    """Return one sentence with the names that look most like `name`."""
    close = list(dict.fromkeys(difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.5)))
    listed = ", ".join(f'"{one}"' for one in close)
    hint = (
        f"did you mean {listed}?" if close else "see `fencepost list reasons` and `fencepost list anomalies`"
    )
    return f'there is no reason code or anomaly "{on_one_line(name)}"; {hint}'
