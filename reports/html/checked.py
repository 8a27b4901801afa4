"""Lists of checks for the templates: those that found nothing, and those that were not made."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.results.reasons import Reason
from harness.results.verdict import Verdict, checks_without_evidence


def clean(verdict: Verdict) -> list[str]:
    """Return the checks that found nothing."""
    if not verdict.stats:
        return []  # nothing was checked
    return [
        name
        for name in verdict.checked
        if name not in verdict.anomalies and name not in verdict.not_checked_because
    ]


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
