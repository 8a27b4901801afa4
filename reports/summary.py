"""The reason for a verdict, in one sentence.

"3 outputs were made twice for one input, after worker shop-2 was paused and replaced": what was found, causes
before what follows from them, and the faults that struck last before the examples. "After" is all that the clock
can say; it does not say "because".
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from harness.model.vocabulary import Guarantee
from harness.results.example import Example
from harness.results.reasons import Reason
from harness.results.verdict import (
    CALLER,
    STAGE,
    AnomalyFindings,
    FaultReport,
    Validity,
    checks_without_evidence,
)
from harness.results.wording import join_words, plural, printable
from reports.told import counted


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
    """The sentence, without a full stop, from the parts of a verdict. `committed`: what is counted there."""
    if valid is Validity.INVALID:
        return _what_was_found(anomalies, faults)
    if valid is Validity.UNKNOWN:
        reasons = [printable(reason.text, 300).rstrip(".") for reason in unknown_because]
        if not reasons:
            return "there is not enough evidence to say"
        more = f" (and {plural(len(reasons) - 1, 'more reason')})" if len(reasons) > 1 else ""
        return reasons[0] + more
    if guarantee.permits is not None and not checks_without_evidence(not_checked or {}):
        return _weaker(guarantee, anomalies, faults, coverage or {})
    complete = not checks_without_evidence(not_checked or {}) and all(
        found.warning or found.allowed_by == STAGE for found in anomalies.values()
    )
    permitted = [name for name, found in anomalies.items() if found.allowed_by_caller]
    held = _what_held(faults, coverage or {}, complete, permitted, committed)
    return (held + _on_the_way(anomalies) if complete else held) + _warned(anomalies)


def causes_first(anomalies: Mapping[str, AnomalyFindings]) -> list[tuple[str, AnomalyFindings]]:
    """Bad ones before warnings before allowed ones; what follows from another comes right after it."""
    ordered: list[tuple[str, AnomalyFindings]] = []
    placed: set[str] = set()

    def follows(found: AnomalyFindings) -> bool:
        cause = anomalies.get(found.because or "")
        return cause is not None and cause.allowed == found.allowed

    def place(name: str) -> None:
        if name in placed:
            return
        placed.add(name)
        ordered.append((name, anomalies[name]))
        for other, found in anomalies.items():
            if found.because == name and found.allowed == anomalies[name].allowed:
                place(other)

    by_weight = sorted(anomalies, key=lambda name: (anomalies[name].allowed, not anomalies[name].warning))
    for name in by_weight:
        if not follows(anomalies[name]):
            place(name)
    for name in by_weight:  # a circle of causes is nobody's intention, and loses nothing
        place(name)
    return ordered


def fault_before(faults: Iterable[FaultReport], moment_s: float) -> FaultReport | None:
    """The fault that acted and began last before a moment."""
    earlier = [fault for fault in faults if fault.acted and fault.start_s <= moment_s]
    return max(earlier, key=lambda fault: fault.start_s, default=None)


def _what_was_found(anomalies: Mapping[str, AnomalyFindings], faults: Sequence[FaultReport]) -> str:
    bad = [(name, found) for name, found in causes_first(anomalies) if not found.allowed]
    if not bad:
        return "the evidence contradicts itself"
    causes = [(name, found) for name, found in bad if found.because not in anomalies] or bad
    words = join_words([counted(name, found) for name, found in causes], 3)
    before = [fault_before(faults, moment_s) for moment_s in sorted(_moments(causes))]
    if not before or before[0] is None:
        return words
    after = list(dict.fromkeys(printable(fault.struck, 200) for fault in before if fault))
    # Beyond the examples there may be an earlier one.
    whole = all(found.count <= len(found.examples) for _, found in causes)
    if len(after) > 1:  # which of them came before which finding is told by the examples
        return f"{words}; before {'them' if whole else 'the examples shown'}, {join_words(after, 3)}"
    return f"{words}, after {after[0]}" if whole else f"{words}; all examples shown are after {after[0]}"


def _moments(found: Iterable[tuple[str, AnomalyFindings]]) -> Iterator[float]:
    for _, body in found:
        for example in body.examples:
            moment = Example(example).moment_s()
            if moment is not None:
                yield moment


def _weaker(
    guarantee: Guarantee,
    anomalies: Mapping[str, AnomalyFindings],
    faults: Sequence[FaultReport],
    coverage: Mapping[str, int],
) -> str:
    """That a weaker guarantee than exactly-once held, and how often it was needed."""
    assert guarantee.permits is not None
    acted = sum(fault.acted for fault in faults)
    under = f" under {plural(acted, 'fault')}" if acted else ""
    of = f" of {plural(coverage.get('inputs', 0), 'input')}"
    found = anomalies.get(guarantee.permits)
    needed, never = _NEEDED[guarantee]
    count = found.count if found else 0
    times = plural(count, "input") if count else "no input"
    needed = needed.format(were="were" if count > 1 else "was")
    beside = [
        counted(name, found)
        for name, found in anomalies.items()
        if name != guarantee.permits and found.allowed and not found.warning and not found.allowed_by_caller
    ]
    told = ", ".join([f"{times} {needed}", *beside])
    held = f"{guarantee.value.replace('-', ' ')} held{under}: {told}, and none{of} {never}"
    return held + _warned(anomalies)


_NEEDED = {
    Guarantee.AT_LEAST_ONCE: ("took effect more than once", "was lost"),
    Guarantee.AT_MOST_ONCE: ("{were} left without effect", "took effect more than once"),
}
"""What it permits, and what it forbids."""


def _on_the_way(anomalies: Mapping[str, AnomalyFindings]) -> str:
    """What a stage that promises less has done, and those behind it have made good."""
    told = [counted(name, found) for name, found in anomalies.items() if found.allowed_by == STAGE]
    return (
        f"; on the way there, {join_words(told)}, which the guarantee of their stage permits" if told else ""
    )


def _warned(anomalies: Mapping[str, AnomalyFindings]) -> str:
    """What was found that breaks no guarantee, and is worth a look."""
    told = [counted(name, found) for name, found in anomalies.items() if found.warning]
    return f"; warning: {join_words(told)}" if told else ""


def _what_held(
    faults: Sequence[FaultReport],
    coverage: Mapping[str, int],
    complete: bool,
    permitted: Sequence[str],
    one: str,
) -> str:
    """What a valid run has shown, and no more: of what was not checked nothing is claimed."""
    acted = sum(fault.acted for fault in faults)
    under = f" under {plural(acted, 'fault')}" if acted else ""
    inputs, committed = coverage.get("inputs"), coverage.get("committed")
    where = f", in {plural(committed, one)}" if committed else ""
    if inputs and complete:
        return f"{plural(inputs, 'input')} of all stages took effect exactly once{under}{where}"
    of = f" among {plural(inputs, 'input')}" if inputs else ""
    if permitted:
        names = join_words([printable(name, 60) for name in permitted])
        return f"nothing was found but what {CALLER} permits ({names}){of}{under}{where}"
    return f"nothing was found that the guarantee forbids{of}{under}{where}"
