"""Merge the results of a run's tables and of its clients' history into one.

The tables have the broker logs, so their result decides wherever both checked the same anomaly. The history has the
micro-operations of each transaction in their order, so it alone decides about cycles. It also adds the order of polls
and sends, and transactions that received their own records: in the tables each poll is a separate operation, and polls
within transactions are missing.
"""

import re
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace

from msgspec import structs

from checkers.registry import CHECKERS, checker_of
from harness.model.promises import HISTORY_FILE
from harness.results.reasons import EXTERNAL_ONLY, Reason, ReasonCode
from harness.results.verdict import AnomalyFindings, CheckResult

ORDER = "order"
"""The family of anomalies that the history may add, if the tables found none."""
WITHIN = frozenset({"precommitted-read"})
"""Anomalies of a single operation that the history may add, if the tables found none."""
KEY = re.compile(r"(.+)/([0-9]{1,9})")
"""How a run's history names a key: topic and partition."""


def history_damaged(why: str) -> Reason:
    """Return the reason for a history that the run promised and that cannot be used."""
    text = f"the run promised {HISTORY_FILE}, and {why}"
    return Reason(ReasonCode.HISTORY_DAMAGED, text, HISTORY_FILE)


def merge_history(
    stored: CheckResult, history: CheckResult | Reason, allowed: Mapping[str, str]
) -> CheckResult:
    """Merge both results.

    Args:
        stored: the result of the tables
        history: the result of the history, or why there is none
        allowed: anomalies that are permitted, and by whom
    """
    if isinstance(history, Reason):
        lacking = {name: history for name, reason in stored.not_checked.items() if reason == EXTERNAL_ONLY}
        return replace(
            stored,
            not_checked={**stored.not_checked, **lacking},
            broken={**stored.broken, HISTORY_FILE: history},
        )
    only_history = [name for name in history.checked if stored.not_checked.get(name) == EXTERNAL_ONLY]
    added = [name for name in history.checked if name in only_history or _history_decides(name, stored)]
    findings = {
        name: _with_keys_of_runs(history.anomalies[name]) for name in added if name in history.anomalies
    }
    anomalies = {
        **stored.anomalies,
        **{name: _permitted(finding, allowed.get(name)) for name, finding in findings.items()},
    }
    for name, finding in findings.items():
        cause = anomalies.get(finding.because or "")
        if finding.because and (cause is None or cause.allowed):
            anomalies[name] = structs.replace(anomalies[name], because=None)
    in_order = [name for checker in CHECKERS for name in checker.anomalies]
    unchecked = {name: reason for name, reason in stored.not_checked.items() if name not in only_history}
    unchecked |= {name: history.not_checked[name] for name in only_history if name in history.not_checked}
    return replace(
        stored,
        anomalies={name: anomalies[name] for name in in_order if name in anomalies},
        not_checked=unchecked,
        broken={**stored.broken, **history.broken},
        checked=[*stored.checked, *(name for name in only_history if name not in unchecked)],
    )


def _history_decides(name: str, stored: CheckResult) -> bool:
    """True if the history decides about an anomaly that the tables did not find.

    It does not decide about order if lines of a journal are missing: they may have the records that a client received.
    """
    if name in stored.anomalies:
        return False
    complete = all(reason.code is not ReasonCode.INCOMPLETE_EVIDENCE for reason in stored.broken.values())
    return name in WITHIN or (complete and checker_of(name).family == ORDER)


def _with_keys_of_runs(findings: AnomalyFindings) -> AnomalyFindings:
    """Add to the examples the keys that parts have in stored runs."""
    examples = deepcopy(findings.examples)
    for example in examples:
        for part in example.parts():
            position = KEY.fullmatch(str(part.get("key")))
            if position is not None:
                part.facts = {"topic": position[1], "partition": int(position[2]), **part.facts}
            times = {"call_ns": part.get("invoke_ns"), "return_ns": part.get("complete_ns")}
            part.facts |= {name: time_ns for name, time_ns in times.items() if time_ns is not None}
    return structs.replace(findings, examples=examples)


def _permitted(findings: AnomalyFindings, by: str | None) -> AnomalyFindings:
    return (
        findings if findings.allowed or by is None else structs.replace(findings, allowed=True, allowed_by=by)
    )
