"""`fencepost explain`."""

import difflib
import textwrap

import click

from checkers.catalogue import catalogue, summarize
from fencepost import registry
from harness.common.errors import ExitStatus, UsageError
from harness.common.wording import on_one_line
from harness.results.reasons import CODES, ReasonCode, remedy_of

WIDTH = 100


@click.command("explain", short_help="Explain a reason code, or an anomaly.")
@click.argument("names", metavar="CODE|ANOMALY...", nargs=-1, required=True)
def command(names: tuple[str, ...]) -> ExitStatus:
    """Explain why a run is unknown, why a check was skipped, or what an anomaly is.

    CODE is a reason code in verdict.json. The command prints what the reason means, when it occurs, and what to do.
    ANOMALY is the name of an anomaly. The command prints its definition, an example, and what the check cannot see.
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
    texts = []
    for name in dict.fromkeys(names):  # a name can be a reason and an anomaly: stalled
        texts += [_reason(CODES[name])] if name in CODES else []
        texts += [_anomaly(name)] if name in anomalies else []
    print("\n\n".join(texts))
    return ExitStatus.VALID


def _reason(code: ReasonCode) -> str:
    keys = " or ".join(consequence.key for consequence in code.consequences)
    lines = [f"{code}, a reason in {keys}", "", *_wrap("", code.meaning), ""]
    for label, words in (("when", code.when), ("what to do", remedy_of(code))):
        lines += _wrap(f"{label:<12}", words)
    return "\n".join([*lines, f"{'page':<12}docs/reasons.md#{code}"])


def _anomaly(name: str) -> str:
    return next(summarize(anomaly) for anomaly in catalogue() if anomaly.name == name)


def _wrap(label: str, words: str) -> list[str]:
    """Wrap `words` in a column to the right of the label."""
    indent = " " * len(label)
    return textwrap.wrap(words, WIDTH, initial_indent=label, subsequent_indent=indent, break_on_hyphens=False)


def _unknown(name: str, known: list[str]) -> str:
    """The message for an unknown name. It suggests the most similar names."""
    similar = list(dict.fromkeys(difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.5)))
    suggestions = ", ".join(f'"{suggestion}"' for suggestion in similar)
    if "/" in name:
        return (
            f'"{on_one_line(name)}" is neither a reason nor an anomaly: for a run, open its report.html, '
            "or use `fencepost trace`"
        )
    if name in registry.nemeses():
        return f'"{name}" is a fault: see `fencepost list nemeses {name}`'
    hint = (
        f"did you mean {suggestions}?"
        if similar
        else "see `fencepost list reasons` and `fencepost list anomalies`"
    )
    return f'there is no reason code or anomaly "{on_one_line(name)}"; {hint}'
