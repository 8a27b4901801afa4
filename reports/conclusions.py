"""Conclusions in words: what findings come from, what affected inputs share, what was not decided, what to do next.

Console, HTML report and reproducer share these sentences.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.common.wording import join_words, number, plural, printable
from harness.results.conclusions import (
    CONTROL,
    Affected,
    ControlRun,
    NotDecided,
    OriginKind,
    Recurrence,
    recurrences,
)
from harness.results.verdict import AnomalyFindings, Verdict

NOT_FAULTS = frozenset({OriginKind.PROGRAM, OriginKind.TEST, OriginKind.DISAGREEMENT})
"""The origins that no fault has a part in."""
LABELS = {
    OriginKind.FAULT: "They come with the faults",
    OriginKind.PROGRAM: "Look at the program first",
    OriginKind.TEST: "Look at the test first",
    OriginKind.DISAGREEMENT: "The program and the test disagree",
    OriginKind.NOT_KNOWN: "The counts do not tell what they come from",
}
NOTHING_SHARED = "nothing that was compared tells them from the others"


@dataclass(frozen=True)
class Conclusion:
    """What is concluded about the findings of one anomaly."""

    anomaly: str
    counted: str  # `854 of 5,272 inputs (16 %)`; empty: not compared
    label: str  # what they come from, in a few words; empty: not judged
    why: str  # a sentence
    contrasts: Sequence[str]  # sentences, the best first
    compared: (
        str  # what was compared, if nothing tells them apart; empty: a contrast does, or nothing was compared
    )


def share(affected: Affected | None) -> str:
    """Return for example `854 of 5,272 inputs (16 %)`; empty if the affected subjects are not known."""
    return "" if affected is None else of_all(affected.affected, affected.subjects, affected.noun)


def of_all(part: int, whole: int, noun: str) -> str:
    """Return for example `854 of 5,272 inputs (16 %)`."""
    noun = printable(noun, 30)
    if part >= whole:
        return f"all {number(part)} {noun}" if part != 1 else f"the only {noun.removesuffix('s')}"
    percent = 100 * part / whole
    shown = "less than 1" if percent < 1 else f"{min(round(percent), 99)}"
    return f"{number(part)} of {number(whole)} {noun} ({shown} %)"


def conclusions(anomalies: Mapping[str, AnomalyFindings]) -> Iterator[Conclusion]:
    """Yield a conclusion for each anomaly that decides the verdict and is no consequence of another one."""
    bad = {name for name, findings in anomalies.items() if not findings.allowed}
    for name, findings in anomalies.items():
        if name in bad and findings.because not in bad and (findings.affected or findings.origin):
            yield conclusion(name, anomalies)


def conclusion(anomaly: str, anomalies: Mapping[str, AnomalyFindings]) -> Conclusion:
    """Return what is concluded about the findings of one anomaly of a verdict.

    If it comes with the faults and another one does not, the faults may only bring out what is wrong without them.
    """
    affected, origin = anomalies[anomaly].affected, anomalies[anomaly].origin
    why = _as_sentence(origin.sentence) if origin else ""
    without_faults = [
        printable(name, 60)
        for name, other in anomalies.items()
        if not other.allowed and other.origin is not None and other.origin.kind in NOT_FAULTS
    ]
    if without_faults and origin is not None and origin.kind is OriginKind.FAULT:
        others = join_words(without_faults, 5)
        why = f"{why}. The faults may only bring out what {others} shows without them: look there first"
    contrasts = [_as_sentence(each.sentence) for each in affected.contrasts] if affected else []
    all_affected = affected is not None and affected.affected >= affected.subjects
    compared = ""
    if affected and not contrasts and not all_affected:
        names = [printable(name, 60) for name in affected.compared]
        compared = f"{NOTHING_SHARED} ({join_words(names, 30)})"
    return Conclusion(
        printable(anomaly, 60),
        share(affected),
        LABELS[origin.kind] if origin else "",
        why,
        contrasts,
        compared,
    )


def describe_not_decided(rows: NotDecided) -> str:
    """Return for example `lost-input is not decided for 411 of 3,761 inputs (11 %)`."""
    name = printable(rows.check, 60)
    return f"{name} is not decided for {of_all(rows.count, rows.subjects, rows.noun)}"


def compare_with_control(verdict: Verdict, control: ControlRun) -> Iterator[tuple[str, str, str]]:
    """Yield rows of a table: what is compared, this run, and the control."""
    yield "verdict", _validity(verdict.valid), _validity(control.valid)
    found = {name: each.count for name, each in verdict.anomalies.items() if not each.allowed}
    for name in dict.fromkeys([*found, *control.anomalies]):
        yield printable(name, 60), number(found.get(name, 0)), number(control.anomalies.get(name, 0))
    yield "faults that acted", number(sum(fault.acted for fault in verdict.faults)), "0"


def next_step(verdict: Verdict, command: str) -> str:
    """Say what to do next with the findings: run a control, or look at the program or the test. Empty: nothing.

    Only `fencepost run` makes a control, and only of a run with faults.
    """
    bad = [findings for findings in verdict.anomalies.values() if not findings.allowed]
    kinds = {each.origin.kind if each.origin else OriginKind.NOT_KNOWN for each in bad}
    if not bad:
        return ""
    if kinds & NOT_FAULTS:
        lead = (
            "No finding comes from the faults."
            if kinds <= NOT_FAULTS
            else "Some findings do not come from the faults."
        )
        return (
            f"{lead} Look at the program, its configuration and the test before you send a finding to the developers "
            "of Kafka or of a client."
        )
    if verdict.control is None and verdict.faults and command.startswith("fencepost run "):
        again = f"{command} {CONTROL}" if CONTROL not in command.split() else command
        return (
            "Before you send them to anybody, see that they need a fault. This command first runs the same pipeline "
            f"without faults: `{again}`"
        )
    return ""


def for_others(verdict: Verdict) -> bool:
    """Return whether the findings follow a fault and the control is clean. They may be a bug of Kafka or a client."""
    bad = {name: each for name, each in verdict.anomalies.items() if not each.allowed}
    kinds = {each.origin.kind for each in bad.values() if each.origin}
    clean = verdict.control is not None and verdict.control.valid is True
    return bool(bad) and kinds == {OriginKind.FAULT} and clean


def _as_sentence(text: str) -> str:
    """Return a text that is safe to show and begins with a capital letter."""
    shown = printable(text, 800)
    return shown[:1].upper() + shown[1:]


def _validity(valid: bool | str) -> str:
    return "valid" if valid is True else "invalid" if valid is False else "unknown"


def describe_recurrence(row: Recurrence) -> str:
    """Return for example `in 3 of 10 runs; with kill-instance in 3 of 6, with pause-instance in none of 4`."""
    parts = [
        f"with {printable(fault, 60)} in {number(hits) if hits else 'none'} of {number(runs)}"
        for fault, (hits, runs) in row.by_fault.items()
    ]
    of_all = f"in {number(row.hits)} of {plural(row.runs, 'run')}"
    return of_all + (f"; {join_words(parts, 8)}" if parts else "")


def recurrences_of(verdicts: Sequence[Verdict]) -> list[Recurrence]:
    """Return how often each anomaly decided one of these verdicts, the most frequent first."""
    return recurrences(
        (
            {fault.fault for fault in verdict.faults if fault.acted},
            {name for name, findings in verdict.anomalies.items() if not findings.allowed},
        )
        for verdict in verdicts
    )
