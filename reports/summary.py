"""The reason for a verdict, in one sentence.

For example "3 outputs were made twice for one input, after worker shop-2 was paused and replaced". It names causes
before their consequences, and the last fault before the examples. It says "after" and not "because", because only the
times are known.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from harness.common.wording import join_words, plural, printable
from harness.model.vocabulary import Guarantee
from harness.results.conclusions import OriginKind
from harness.results.reasons import Reason, by_cause
from harness.results.verdict import (
    CALLER,
    STAGE,
    AnomalyFindings,
    FaultReport,
    Validity,
    checks_without_evidence,
)
from reports.conclusions import NOT_FAULTS, share
from reports.findings_text import describe_count


def summary(
    valid: Validity,
    anomalies: Mapping[str, AnomalyFindings],
    faults: Sequence[FaultReport] = (),
    *,
    unknown_because: Sequence[Reason] = (),
    coverage: Mapping[str, int] | None = None,
    not_checked: Mapping[str, Reason] | None = None,
    committed: str = "committed transaction",
    guarantee: Guarantee = Guarantee.EXACTLY_ONCE,
) -> str:
    """Return the sentence, without a full stop. `committed` is the noun for the things that a valid run committed."""
    if valid is Validity.INVALID:
        return _describe_invalid(anomalies, faults)
    if valid is Validity.UNKNOWN:
        return _describe_unknown(unknown_because)
    if guarantee.permits is not None and not checks_without_evidence(not_checked or {}):
        return _weaker(guarantee, anomalies, faults, coverage or {})
    complete = not checks_without_evidence(not_checked or {}) and all(
        findings.warning or findings.allowed_by == STAGE for findings in anomalies.values()
    )
    permitted = [name for name, findings in anomalies.items() if findings.allowed_by_caller]
    sentence = _describe_valid(faults, coverage or {}, complete, permitted, committed)
    return (sentence + _inside_pipeline(anomalies) if complete else sentence) + _warned(anomalies)


def _describe_unknown(unknown_because: Sequence[Reason]) -> str:
    """Name the first reason, and count those that follow from it and the other first causes."""
    causes = by_cause(unknown_because)
    if not causes:
        return "there is not enough evidence to say"
    first, consequences = causes[0]
    more = [
        f"and {plural(len(consequences), 'consequence')} of it" if consequences else "",
        f"and {plural(len(causes) - 1, 'more reason')}" if len(causes) > 1 else "",
    ]
    notes = ", ".join(filter(None, more))
    return printable(first.text, 300).rstrip(".") + (f" ({notes})" if notes else "")


def causes_first(anomalies: Mapping[str, AnomalyFindings]) -> list[tuple[str, AnomalyFindings]]:
    """Return the anomalies in order: illegal ones, warnings, allowed ones. After each anomaly come its consequences."""
    ordered: list[tuple[str, AnomalyFindings]] = []
    added: set[str] = set()

    def follows(findings: AnomalyFindings) -> bool:
        cause = anomalies.get(findings.because or "")
        return cause is not None and cause.allowed == findings.allowed

    def add(name: str) -> None:
        if name in added:
            return
        added.add(name)
        ordered.append((name, anomalies[name]))
        for consequence, findings in anomalies.items():
            if findings.because == name and findings.allowed == anomalies[name].allowed:
                add(consequence)

    by_weight = sorted(anomalies, key=lambda name: (anomalies[name].allowed, not anomalies[name].warning))
    for name in by_weight:
        if not follows(anomalies[name]):
            add(name)
    for name in by_weight:  # a cycle of causes must not lose an anomaly
        add(name)
    return ordered


def last_fault_before(faults: Iterable[FaultReport], moment_s: float) -> FaultReport | None:
    """Return the last fault that acted and began before a moment, or None."""
    earlier = [fault for fault in faults if fault.acted and fault.start_s <= moment_s]
    return max(earlier, key=lambda fault: fault.start_s, default=None)


def _describe_invalid(anomalies: Mapping[str, AnomalyFindings], faults: Sequence[FaultReport]) -> str:
    """Name the last fault before each finding."""
    origins = [findings.origin for _, findings in _first_causes(anomalies)]
    if origins and all(origin and origin.kind in NOT_FAULTS for origin in origins):
        kinds = {origin.kind for origin in origins if origin}
        under = "; the faults did not cause this" if any(fault.acted for fault in faults) else ""
        if kinds == {OriginKind.TEST}:
            under = "; the test writes its inputs where the program does not look for them, so correct the test first"
        elif kinds == {OriginKind.DISAGREEMENT}:
            under = "; the program and the test disagree, and the faults did not cause this"
        return describe_invalid(anomalies, []) + under
    before = [last_fault_before(faults, moment_s) for moment_s in sorted(_moments(_first_causes(anomalies)))]
    known = before and before[0] is not None
    return describe_invalid(anomalies, [fault.struck for fault in before if fault] if known else [])


def _first_causes(anomalies: Mapping[str, AnomalyFindings]) -> list[tuple[str, AnomalyFindings]]:
    bad = [(name, findings) for name, findings in causes_first(anomalies) if not findings.allowed]
    return [(name, findings) for name, findings in bad if findings.because not in anomalies] or bad


def describe_invalid(anomalies: Mapping[str, AnomalyFindings], struck: Iterable[str]) -> str:
    """Return the sentence for an invalid run, without a full stop. `struck`: what came before its findings."""
    causes = _first_causes(anomalies)
    if not causes:
        return "the evidence contradicts itself"
    words = join_words([_count_and_share(name, findings) for name, findings in causes], 3)
    after = list(dict.fromkeys(printable(each, 200) for each in struck))
    if not after:
        return words
    # Findings without an example may be earlier.
    all_shown = all(findings.count <= len(findings.examples) for _, findings in causes)
    if all_shown and len(after) == 1:
        return f"{words}, after {after[0]}"
    # If there are several faults, the examples say which one came before which finding.
    return f"{words}; before {'them' if all_shown else 'the examples shown'}, {join_words(after, 3)}"


def _count_and_share(anomaly: str, findings: AnomalyFindings) -> str:
    """Return for example `1,708 outputs of inputs are missing (854 of 5,272 inputs, 16 %)`."""
    of_all = share(findings.affected)
    inner = of_all.replace(" (", ", ").removesuffix(")") if of_all else ""
    return describe_count(anomaly, findings) + (f" ({inner})" if inner else "")


def _moments(findings: Iterable[tuple[str, AnomalyFindings]]) -> Iterator[float]:
    for _, body in findings:
        for example in body.examples:
            moment = example.moment_s()
            if moment is not None:
                yield moment


def _weaker(
    guarantee: Guarantee,
    anomalies: Mapping[str, AnomalyFindings],
    faults: Sequence[FaultReport],
    coverage: Mapping[str, int],
) -> str:
    """Return the sentence for a run whose guarantee is weaker than exactly-once and was kept, with counts of permitted
    anomalies.
    """
    assert guarantee.permits is not None
    acted = sum(fault.acted for fault in faults)
    under = f" under {plural(acted, 'fault')}" if acted else ""
    of = f" of {plural(coverage.get('inputs', 0), 'input')}"
    findings = anomalies.get(guarantee.permits)
    permitted_text, forbidden_text = _PERMITS_AND_FORBIDS[guarantee]
    count = findings.count if findings else 0
    times = plural(count, "input") if count else "no input"
    permitted_text = permitted_text.format(were="were" if count > 1 else "was")
    allowed_counts = [
        describe_count(name, findings)
        for name, findings in anomalies.items()
        if name != guarantee.permits
        and findings.allowed
        and not findings.warning
        and not findings.allowed_by_caller
    ]
    texts = ", ".join([f"{times} {permitted_text}", *allowed_counts])
    sentence = f"{guarantee.value.replace('-', ' ')} held{under}: {texts}, and none{of} {forbidden_text}"
    return sentence + _warned(anomalies)


_PERMITS_AND_FORBIDS = {
    Guarantee.AT_LEAST_ONCE: ("took effect more than once", "was lost"),
    Guarantee.AT_MOST_ONCE: ("{were} left without effect", "took effect more than once"),
}
"""Words for the effect that a guarantee permits, and for the effect that it forbids."""


def _inside_pipeline(anomalies: Mapping[str, AnomalyFindings]) -> str:
    """Describe anomalies that a stage with a weaker guarantee caused and later stages repaired."""
    counts = [
        describe_count(name, findings) for name, findings in anomalies.items() if findings.allowed_by == STAGE
    ]
    return (
        f"; inside the pipeline, {join_words(counts)}, which the guarantee of their stage permits"
        if counts
        else ""
    )


def _warned(anomalies: Mapping[str, AnomalyFindings]) -> str:
    """Describe the warnings: findings that break no guarantee."""
    counts = [describe_count(name, findings) for name, findings in anomalies.items() if findings.warning]
    return f"; warning: {join_words(counts)}" if counts else ""


def _describe_valid(
    faults: Sequence[FaultReport],
    coverage: Mapping[str, int],
    complete: bool,
    permitted: Sequence[str],
    noun: str,
) -> str:
    """Return the sentence for a valid run. It claims nothing about checks that were not made."""
    acted = sum(fault.acted for fault in faults)
    under = f" under {plural(acted, 'fault')}" if acted else ""
    inputs, committed = coverage.get("inputs"), coverage.get("committed")
    where = f", in {plural(committed, noun)}" if committed else ""
    if inputs and complete:
        return f"{plural(inputs, 'input')} of all stages took effect exactly once{under}{where}"
    of = f" among {plural(inputs, 'input')}" if inputs else ""
    if permitted:
        names = join_words([printable(name, 60) for name in permitted])
        return f"no anomaly was found except those that {CALLER} permits ({names}){of}{under}{where}"
    return f"nothing was found that the guarantee forbids{of}{under}{where}"
