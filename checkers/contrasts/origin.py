"""Say where findings come from: from the faults of the run, from the program, or from the test.

The shares of affected subjects before and after the first fault decide. A program that is wrong without faults, or an
expectation that is wrong, shows before the first fault what it shows later. A fault shows nothing before it.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import structs

from checkers.contrasts.contrast import Flags, Numbers
from checkers.contrasts.dimensions import BEFORE, SubjectComparison, phases
from harness.common.wording import join_words, number, plural, printable
from harness.results.conclusions import Contrast, ControlRun, Origin, OriginKind
from harness.results.verdict import AnomalyFindings, FaultReport

LEAST_EXPECTED = 3.0
"""If fewer affected subjects than this were expected before the first fault, none of them there shows nothing."""
COMPARABLE = 0.5
"""The share before the first fault is comparable with the later one from this ratio on."""
RARE = 0.1
"""Below this ratio, the few affected subjects before the first fault are named, and the faults are still the origin."""
CONTENT = frozenset({"corrupt", "aggregate-mismatch"})
"""Anomalies that compare what the program wrote with what the test expects."""


def origin(
    anomaly: str,
    comparison: SubjectComparison,
    affected: Flags,
    weights: Numbers,
    contrasts: Sequence[Contrast],
) -> Origin:
    """Return where the findings of an anomaly come from."""
    acted = comparison.facts.acted
    if not acted:
        return _without_faults(anomaly, contrasts, "no fault acted in this run")
    phase = phases(comparison)
    before, after = phase == BEFORE, phase > BEFORE
    hits_before, all_before = _sums(before, affected, weights)
    hits_after, all_after = _sums(after, affected, weights)
    counts = (
        f"{_of(hits_before, all_before)} {comparison.kind} that were {comparison.done} before the first fault, and "
        f"{_of(hits_after, all_after)} later ones, are affected"
    )
    if not all_before or not hits_before + hits_after:
        few = f"too few {comparison.kind} were {comparison.done} before the first fault to compare with"
        return Origin(OriginKind.NOT_KNOWN, few)
    share_before, share_after = hits_before / all_before, hits_after / max(all_after, 1)
    if hits_before >= 3 and share_before >= COMPARABLE * share_after:
        first_s = float(np.nanmin(comparison.happened_s[affected]))
        lead = f"the findings begin {acted[0].start_s - first_s:,.1f} s before the first fault: {counts}"
        return _without_faults(anomaly, contrasts, lead)
    expected = (hits_before + hits_after) * all_before / (all_before + all_after)
    if expected < LEAST_EXPECTED:
        return Origin(OriginKind.NOT_KNOWN, f"too few to tell: {counts}")
    if share_before <= RARE * share_after:
        in_work = _in_work(comparison, affected, weights)
        return Origin(OriginKind.FAULT, f"after {_struck(acted)}: {counts}{in_work}")
    return Origin(
        OriginKind.NOT_KNOWN, f"there are more of them after the faults, but not only there: {counts}"
    )


def with_control(
    anomalies: Mapping[str, AnomalyFindings], control: ControlRun | None
) -> dict[str, AnomalyFindings]:
    """Return the anomalies with the origin that the same run without faults shows. It decides where counts do not."""
    if control is None or control.valid == "unknown":
        return dict(anomalies)
    return {
        name: structs.replace(each, origin=_by_control(name, each, control))
        for name, each in anomalies.items()
    }


def _by_control(anomaly: str, findings: AnomalyFindings, control: ControlRun) -> Origin | None:
    origin, count = findings.origin, control.anomalies.get(anomaly, 0)
    if findings.allowed:
        return origin
    if count:
        contrasts = findings.affected.contrasts if findings.affected else ()
        return _without_faults(
            anomaly, contrasts, f"the control, a run without faults, has {number(count)} of them too"
        )
    clean = "the control, a run without faults, has none of them"
    if origin is None or origin.kind is OriginKind.NOT_KNOWN:
        more = f"; {origin.sentence}" if origin else ""
        return Origin(OriginKind.FAULT, f"they need a fault: {clean}{more}")
    return structs.replace(origin, sentence=f"{origin.sentence}; {clean}")


def _without_faults(anomaly: str, contrasts: Sequence[Contrast], why: str) -> Origin:
    """Say that faults are not the origin, and where to look first."""
    by_partitioner = [contrast for contrast in contrasts if contrast.dimension.startswith("key by ")]
    if by_partitioner:
        look = (
            "The inputs are not in the partitions in which the program looks for their keys: set `partitioner` in "
            "[inputs.NAME] to that of the program's own producers (murmur2_random for Java)"
        )
        return Origin(OriginKind.TEST, f"not caused by the faults: {why}. {look}")
    if anomaly in CONTENT:
        look = (
            "The program writes other contents than the test expects, and the evidence does not show which of them is "
            "wrong: compare both contents of an example with the specification"
        )
        return Origin(OriginKind.DISAGREEMENT, f"not caused by the faults: {why}. {look}")
    look = "Look at the program and its configuration, and then at the expectation"
    return Origin(OriginKind.PROGRAM, f"not caused by the faults: {why}. {look}")


def _sums(of: Flags, affected: Flags, weights: Numbers) -> tuple[int, int]:
    return round(float(weights[of & affected].sum())), round(float(weights[of].sum()))


def _of(part: int, whole: int) -> str:
    if part == whole:
        return f"all {number(whole)}"
    return f"{number(part) if part else 'none'} of the {number(whole)}"


def _in_work(comparison: SubjectComparison, affected: Flags, weights: Numbers) -> str:
    """Say how many affected inputs were in work when each fault came. An input may be in work at several faults, so the
    counts may overlap. Empty: the offset commits do not show it.
    """
    passing, acted = comparison.passing, comparison.facts.acted
    if passing is None or np.isnan(passing.commit_s).all():
        return ""
    counts = [float(weights[affected & passing.in_work_at(fault.start_s)].sum()) for fault in acted]
    parts = [
        f"{number(round(count)) if count else 'none'} at fault {n}, when {printable(fault.struck, 120)}"
        for n, (fault, count) in enumerate(zip(acted, counts, strict=True), 1)
    ]
    return f"; of them were in work: {join_words(parts, 6)}"


def _struck(acted: Sequence[FaultReport]) -> str:
    names = sorted({fault.fault for fault in acted})
    return f"{plural(len(acted), 'fault')} ({', '.join(names)})"
