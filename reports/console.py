"""What the console says of a run, of an external history, and of a bench."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.history_files.schema import KNOWN
from harness.results.verdict import AnomalyFindings, Validity, Verdict, checks_without_evidence
from harness.results.wording import join_words, plural, printable
from reports.summary import causes_first
from reports.told import counted, permitted, sentence
from reports.trace.asked import commands

WORDS = {Validity.VALID: "valid", Validity.INVALID: "INVALID", Validity.UNKNOWN: "unknown"}
MOST_WARNINGS = 5
MOST_CHARACTERS = 600
"""The longest example of an external history; all of it is in `verdict.json`."""


def last_lines(verdict: Verdict, folder: Path, command: str) -> list[str]:
    """What was found, with the first example of each, and what was left open; then the verdict, its reason,
    the report, the command.
    """
    lines = []
    for anomaly, found in causes_first(verdict.anomalies):
        note = "warning: " if found.warning else "allowed: " if found.allowed else ""
        because = f", because of {printable(found.because, 60)}" if found.because else ""
        name = printable(anomaly, 60)
        more = f"; {permitted(found)}" if found.permitted else ""
        lines.append(f"  {name:<24} {note}{counted(name, found)}{because}{more}")
        if found.example:
            lines.append(f"    first: {sentence(anomaly, found)}")
    if trace := _first_trace(verdict, folder):
        lines.append(f"  step by step: {trace}")
    lines += [f"  unknown: {printable(reason.text, 300)}" for reason in verdict.unknown_because]
    lines += [f"  more: {line}" for line in _explained(verdict)]
    lines += [f"  warning: {printable(reason.text, 300)}" for reason in verdict.warnings[:MOST_WARNINGS]]
    left, blind = verdict.not_exercised, checks_without_evidence(verdict.not_checked)
    open_ends = [
        plural(len(blind), "check") + " had no evidence" if blind else "",
        "not exercised: " + join_words([printable(name, 60) for name in left]) if left else "",
    ]
    if any(open_ends):
        lines.append(f"  {'; '.join(filter(None, open_ends))} (the report says why)")
    return [
        *lines,
        f"verdict  {WORDS[verdict.valid]}",
        f"reason   {printable(verdict.summary, 400)}",
        f"report   {folder / 'report.html'}",
        f"repeat   {printable(command, 4000)}",
    ]


def _first_trace(verdict: Verdict, folder: Path) -> str:
    """The command that tells the story of the first example that has one, of what decided the verdict."""
    bad = [
        found.example for _, found in causes_first(verdict.anomalies) if found.example and not found.allowed
    ]
    return next(filter(None, commands(folder, bad)), "")


def first_examples(verdict: Verdict) -> Iterator[str]:
    """For each anomaly of a stored run that counts, how often it was found and the first example."""
    for anomaly, found in causes_first(verdict.anomalies):
        if found.example:
            yield f"{headed(anomaly, found)}: {sentence(anomaly, found)}"


def examples_of_history(verdict: Verdict) -> Iterator[str]:
    """For each anomaly of an external history the count and the first example, after the operations passed over."""
    if over := verdict.stats.get("passed_over"):
        yield f"{plural(over, 'operation')} passed over: f is none of {', '.join(KNOWN)}"
    for name, found in verdict.anomalies.items():
        if found.example:
            yield f"{headed(name, found)}: {printable(sentence(name, found), MOST_CHARACTERS)}"


def headed(anomaly: str, found: AnomalyFindings) -> str:
    """`unseen (3), because of lost-write`."""
    because = f", because of {printable(found.because, 60)}" if found.because else ""
    return f"{printable(anomaly, 60)} ({found.count}){because}"


def beside(verdict: Verdict) -> Iterator[str]:
    """What was found and decides nothing, and every reason of an unknown verdict that has several."""
    said = [
        f"{printable(name, 60)} ({found.count}, {printable(found.allowed_by or 'a warning', 60)})"
        for name, found in verdict.anomalies.items()
        if found.allowed
    ]
    if said:
        yield f"allowed: {', '.join(said)}"
    if len(verdict.unknown_because) > 1:
        yield from (f"unknown: {printable(reason.text, 300)}" for reason in verdict.unknown_because)
    yield from (f"more: {line}" for line in _explained(verdict))


def _explained(verdict: Verdict) -> Iterator[str]:
    """The command that explains the reasons of an unknown verdict."""
    if verdict.unknown_because and verdict.valid is Validity.UNKNOWN:
        yield f"fencepost explain {' '.join(dict.fromkeys(reason.code for reason in verdict.unknown_because))}"


def bench_lines(figures: Mapping[str, Any], page: Path, command: str) -> Iterator[str]:
    """The last lines of a bench: cost by transaction size, claims, page, and the command that repeats it."""
    for point in figures["points"]:
        for figure, ratio in point["ratios"].items():
            if point["delivery"] == "transactions" and figure in ("throughput", "p50") and point["journal"]:
                yield (
                    f"  {point['where']}: {figure} x {ratio['median']:.2f} "
                    f"({ratio['min']:.2f} to {ratio['max']:.2f}) of {ratio['to']['delivery']}"
                )
    for claim in figures["claims"]:
        yield f"{claim['answer']:<12}  {claim['text']}"
    if figures["cut_short"]:
        made = figures["measurements"]
        yield f"cut short: {made['made']} of {made['planned']} measurements were made"
    yield f"page     {page}"
    yield f"repeat   {command}"
