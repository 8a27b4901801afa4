"""Console output about a run or an external history."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from harness.common.wording import join_words, plural, printable
from harness.record.history_form import KNOWN
from harness.results.reasons import by_cause
from harness.results.verdict import AnomalyFindings, FaultReport, Validity, Verdict, checks_without_evidence
from reports.conclusions import conclusion, describe_not_decided
from reports.findings_text import describe_count, describe_permitted, first_example_sentence
from reports.liveness_text import describe_recovery
from reports.story.scopes import trace_commands
from reports.summary import causes_first

WORDS = {Validity.VALID: "valid", Validity.INVALID: "INVALID", Validity.UNKNOWN: "unknown"}
MOST_WARNINGS = 5
MOST_FAULTS = 10
MOST_CHARACTERS = 600
"""The longest example of an external history to print. `verdict.json` holds the whole example."""


def last_lines(verdict: Verdict, folder: Path, command: str) -> list[str]:
    """Return the last lines of a run: each anomaly with its first example, what is unknown or not exercised, how the
    pipeline recovered from each fault, the verdict, its reason, the report, and the command that repeats the run.
    """
    lines = []
    for anomaly, findings in causes_first(verdict.anomalies):
        note = "warning: " if findings.warning else "allowed: " if findings.allowed else ""
        because = f", because of {printable(findings.because, 60)}" if findings.because else ""
        name = printable(anomaly, 60)
        more = f"; {describe_permitted(findings)}" if findings.permitted else ""
        lines.append(f"  {name:<24} {note}{describe_count(name, findings)}{because}{more}")
        lines += [f"    {line}" for line in _concluded(anomaly, verdict.anomalies)]
        if findings.example:
            lines.append(f"    first: {first_example_sentence(anomaly, findings)}")
    if trace := _first_trace(verdict, folder):
        lines.append(f"  step by step: {trace}")
    lines += [f"  {line}" for line in _unknown(verdict)]
    lines += [f"  {line}" for line in _not_decided(verdict)]
    lines += [f"  {line}" for line in _left(verdict)]
    lines += [f"  more: {line}" for line in _explained(verdict)]
    lines += [f"  warning: {printable(reason.text, 300)}" for reason in verdict.warnings[:MOST_WARNINGS]]
    not_exercised, without_evidence = (
        verdict.not_exercised,
        checks_without_evidence(verdict.not_checked_because),
    )
    gaps = [
        plural(len(without_evidence), "check") + " had no evidence" if without_evidence else "",
        "not exercised: " + join_words([printable(name, 60) for name in not_exercised])
        if not_exercised
        else "",
    ]
    if any(gaps):
        lines.append(f"  {'; '.join(filter(None, gaps))} (the report says why)")
    return [
        *lines,
        *_recoveries(verdict.faults),
        f"verdict  {WORDS[verdict.validity]}",
        f"reason   {printable(verdict.summary, 400)}",
        f"report   {folder / 'report.html'}",
        f"repeat   {printable(command, 4000)}",
    ]


def _recoveries(faults: Sequence[FaultReport]) -> Iterator[str]:
    """Yield a line for each fault: `fault 2, kill-broker: commits again after 1.2 s, longest gap 3.4 s, ...`.

    The number is that of `fencepost trace --fault`.
    """
    recoveries = [
        (number, fault.fault, words)
        for number, fault in enumerate(faults, 1)
        if (words := describe_recovery(fault.liveness))
    ]
    for number, name, words in recoveries[:MOST_FAULTS]:
        yield f"  fault {number}, {printable(name, 60)}: {words}"
    if len(recoveries) > MOST_FAULTS:
        yield f"  {plural(len(recoveries) - MOST_FAULTS, 'more fault')} in the report"


def _concluded(anomaly: str, anomalies: Mapping[str, AnomalyFindings]) -> Iterator[str]:
    """Yield how many of all inputs are affected, the best contrast, and what the findings come from."""
    if anomalies[anomaly].allowed or anomalies[anomaly].because:
        return
    own = conclusion(anomaly, anomalies)
    if own.counted:
        yield f"affected: {own.counted}" + (f"; {own.contrasts[0]}" if own.contrasts else "")
    if own.label:
        yield f"{own.label[0].lower()}{own.label[1:]}: {own.why}"


def _first_trace(verdict: Verdict, folder: Path) -> str:
    """Return the `fencepost trace` command for the first example that decides the verdict, or an empty string."""
    bad = [
        findings.example
        for _, findings in causes_first(verdict.anomalies)
        if findings.example and not findings.allowed
    ]
    return next(filter(None, trace_commands(folder, bad)), "")


def first_examples(verdict: Verdict) -> Iterator[str]:
    """Yield one line for each anomaly that decides the verdict of a stored run: its count and its first example."""
    for anomaly, findings in causes_first(verdict.anomalies):
        if findings.example:
            yield f"{name_and_count(anomaly, findings)}: {first_example_sentence(anomaly, findings)}"


def examples_of_history(verdict: Verdict) -> Iterator[str]:
    """Yield the same lines for an external history, after a line about operations of unknown kinds."""
    if over := verdict.stats.get("passed_over"):
        yield f"{plural(over, 'operation')} passed over: f is none of {', '.join(KNOWN)}"
    for name, findings in verdict.anomalies.items():
        if findings.example:
            sentence = printable(first_example_sentence(name, findings), MOST_CHARACTERS)
            yield f"{name_and_count(name, findings)}: {sentence}"


def name_and_count(anomaly: str, findings: AnomalyFindings) -> str:
    """Return for example `unseen (3), because of lost-write`."""
    because = f", because of {printable(findings.because, 60)}" if findings.because else ""
    return f"{printable(anomaly, 60)} ({findings.count}){because}"


def allowed_and_unknown(verdict: Verdict) -> Iterator[str]:
    """Yield a line about findings that do not decide the verdict, and a line for each of several reasons why it is, or
    would be, unknown. The summary of an unknown verdict names the only first cause.
    """
    allowed = [
        f"{printable(name, 60)} ({findings.count}, {printable(findings.allowed_by or 'a warning', 60)})"
        for name, findings in verdict.anomalies.items()
        if findings.allowed
    ]
    if allowed:
        yield f"allowed: {', '.join(allowed)}"
    reasons = verdict.unknown_because
    in_summary = verdict.validity is Validity.UNKNOWN and len(by_cause(reasons)) == 1
    if len(reasons) > 1 and not in_summary:
        yield from _unknown(verdict)
    yield from _not_decided(verdict)
    yield from _left(verdict)
    yield from (f"more: {line}" for line in _explained(verdict))


def _not_decided(verdict: Verdict) -> Iterator[str]:
    """Yield what the checks could not decide, and why."""
    for rows in verdict.not_decided:
        yield f"not decided: {describe_not_decided(rows)}, because {printable(rows.why, 400)}"
        yield from (f"  first: {printable(sentence, 400)}" for sentence in rows.sentences[:1])


def _unknown(verdict: Verdict) -> Iterator[str]:
    """Yield a line for each first cause of why the verdict is unknown. `verdict.json` lists the consequences too."""
    for cause, consequences in by_cause(verdict.unknown_because):
        more = f" (and {plural(len(consequences), 'consequence')} of it)" if consequences else ""
        yield f"unknown: {printable(cause.text, 300)}{more}"


def _left(verdict: Verdict) -> Iterator[str]:
    """Yield what the groups have not processed, if anything is left."""
    if verdict.left is not None and verdict.left.is_left:
        yield f"left: {printable(verdict.left.summary, 600)}"


def _explained(verdict: Verdict) -> Iterator[str]:
    """Yield the command that explains the reasons, if the verdict is unknown."""
    if verdict.unknown_because and verdict.validity is Validity.UNKNOWN:
        yield f"fencepost explain {' '.join(dict.fromkeys(reason.code for reason in verdict.unknown_because))}"
