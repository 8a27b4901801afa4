"""Judge the cases of a batch: the findings of its check, by the partition or the transactional id of a case."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from fencepost.exploration.record import CaseVerdict, TriedCase
from harness.protocol.cases import CaseOutcome
from harness.results.example import Example
from harness.results.verdict import Verdict
from workloads.explore import EXPLORE, TASKS
from workloads.model.workload import pinned_id

NO_CASE = -1
"""The number under which the findings are that are of no case."""


def anomalies_of_no_case(outcomes: Sequence[CaseOutcome], verdict: Verdict) -> list[str]:
    """Return the anomalies with a finding that is of no case of the batch."""
    return _anomalies_by_case(verdict, [outcome.case.number for outcome in outcomes]).get(NO_CASE, [])


def judge(outcomes: Sequence[CaseOutcome], verdict: Verdict, batch: str) -> Iterator[TriedCase]:
    """Yield the verdict of each case of a batch.

    Args:
        verdict: It has all findings as examples.
        batch: The run folder.
    """
    anomalies = _anomalies_by_case(verdict, [outcome.case.number for outcome in outcomes])
    for outcome in outcomes:
        found = anomalies.get(outcome.case.number, [])
        yield TriedCase(
            _verdict_of(outcome, found),
            batch,
            outcome.case.number,
            found,
            outcome.proof,
            list(outcome.errors),
            outcome.stuck,
        )


def _verdict_of(outcome: CaseOutcome, anomalies: Sequence[str]) -> CaseVerdict:
    if anomalies:
        return CaseVerdict.WRONG
    if outcome.stuck:
        return CaseVerdict.STUCK
    if not outcome.acted:
        return CaseVerdict.NOT_MET
    return CaseVerdict.FENCED if outcome.errors else CaseVerdict.RIGHT


def _anomalies_by_case(verdict: Verdict, numbers: Sequence[int]) -> Mapping[int, list[str]]:
    """Return the anomalies of each case, by its number."""
    ids = {pinned_id(TASKS, number): number for number in numbers}
    found: dict[int, list[str]] = defaultdict(list)
    for name, findings in verdict.anomalies.items():
        if findings.allowed:
            continue
        assert len(findings.examples) == findings.count, f"{name} has more findings than examples"
        for number in {_case_of(example, ids) for example in findings.examples}:
            found[number].append(name)
    return found


def _case_of(example: Example, ids: Mapping[str, int]) -> int:
    """Return the number of the case that an example is about, or `NO_CASE`."""
    for part in example.parts():
        if part.get("transactional_id") in ids:
            return ids[part.get("transactional_id")]
    for part in example.parts():
        if part.get("topic") in EXPLORE.topics and part.get("partition") is not None:
            return int(part.get("partition"))
    return NO_CASE
