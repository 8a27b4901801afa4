"""Lists of checks for the templates: those that found nothing, and those that were not made."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.common.wording import number, plural
from harness.results.reasons import Reason
from harness.results.verdict import Verdict, checks_without_evidence


@dataclass(frozen=True)
class CheckMeaning:
    """What a check looks for."""

    family: str  # inputs, records, transactions, order, log, cycles
    sentence: str


@dataclass(frozen=True)
class CleanCheck:
    """A check that found nothing."""

    name: str
    meaning: str
    examined: str  # `4,505 inputs`; empty: not counted


def clean(verdict: Verdict, meanings: Mapping[str, CheckMeaning] | None = None) -> list[CleanCheck]:
    """Return the checks that found nothing and left nothing undecided.

    Args:
        verdict: the verdict
        meanings: by check, what it looks for
    """
    if not verdict.stats:
        return []  # nothing was checked
    undecided = {rows.check for rows in verdict.not_decided}
    return [
        CleanCheck(name, meaning.sentence if meaning else "", _examined(verdict, meaning))
        for name in verdict.checked
        if name not in {*verdict.anomalies, *verdict.not_checked_because, *undecided}
        for meaning in [(meanings or {}).get(name)]
    ]


def _examined(verdict: Verdict, meaning: CheckMeaning | None) -> str:
    """Return how many things a check examined."""
    coverage = verdict.coverage
    family = meaning.family if meaning else ""
    if family == "inputs" and coverage.get("inputs"):
        return plural(coverage["inputs"], "input")
    if family in ("records", "order") and coverage.get("outputs"):
        return plural(coverage["outputs"], "output")
    transactions = coverage.get("committed", 0) + coverage.get("aborted", 0)
    if family == "transactions" and not transactions:
        return "none: no transaction was seen"
    return (
        f"{number(transactions)} transactions" if family in ("transactions", "log") and transactions else ""
    )


def not_applicable(verdict: Verdict) -> list[dict[str, Any]]:
    """Return the checks that do not apply to this kind of history or pipeline, grouped by reason: why, names, count."""
    without_evidence = checks_without_evidence(verdict.not_checked_because)
    others = {name: why for name, why in verdict.not_checked_because.items() if name not in without_evidence}
    return [{"why": reason.text, "names": names, "count": len(names)} for reason, names in _by_reason(others)]


def without_evidence(verdict: Verdict) -> Iterator[tuple[Reason, Sequence[str]]]:
    """Yield each reason for which checks that apply were not made, and their names."""
    yield from _by_reason(checks_without_evidence(verdict.not_checked_because))


def _by_reason(not_checked: Mapping[str, Reason]) -> Iterator[tuple[Reason, list[str]]]:
    names_by_reason: dict[Reason, list[str]] = {}
    for name, reason in not_checked.items():
        names_by_reason.setdefault(reason, []).append(name)
    yield from names_by_reason.items()
