"""A run of which there are tables and its clients' own history: what the two say of it, in one judgement.

The tables have the brokers' logs, so they decide wherever both were looked at for the same anomaly. The history has
the micro-operations of each transaction in their order, so it alone decides on cycles. It also adds what it says of
the order of polls and sends, and of a transaction that was given its own record: the tables have each poll as an
operation of its own, and say neither of polls within transactions.
"""

import re
from collections.abc import Mapping
from dataclasses import replace

from checkers.registry import CHECKERS, checker_of
from harness.model.promises import HISTORY_FILE
from harness.results.reasons import EXTERNAL_ONLY, Reason, ReasonCode
from harness.results.verdict import AnomalyFindings, CheckResult

ORDER = "order"
"""The family of which both may tell, each of what it alone has seen."""
WITHIN = frozenset({"precommitted-read"})
"""And what is so of one operation alone."""
KEY = re.compile(r"(.+)/([0-9]{1,9})")
"""As a run's history names a key: by its topic and partition."""


def history_damaged(why: str) -> Reason:
    """Why a history that the run promised says nothing."""
    text = f"the run promised {HISTORY_FILE}, and {why}"
    return Reason(ReasonCode.HISTORY_DAMAGED, text, HISTORY_FILE)


def merge_history(stored: CheckResult, told: CheckResult | Reason, allowed: Mapping[str, str]) -> CheckResult:
    """One judgement of both. `told`: of the history, or why there is none; `allowed`: what is permitted, by whom."""
    if isinstance(told, Reason):
        lacking = {name: told for name, reason in stored.not_checked.items() if reason == EXTERNAL_ONLY}
        return replace(
            stored,
            not_checked={**stored.not_checked, **lacking},
            broken={**stored.broken, HISTORY_FILE: told},
        )
    looked = [name for name in told.checked if stored.not_checked.get(name) == EXTERNAL_ONLY]
    taken = [name for name in told.checked if name in looked or _adds(name, stored)]
    theirs = {name: _as_of_a_run(told.anomalies[name]) for name in taken if name in told.anomalies}
    anomalies = {
        **stored.anomalies,
        **{name: _permitted(found, allowed.get(name)) for name, found in theirs.items()},
    }
    in_order = [name for checker in CHECKERS for name in checker.anomalies]
    unchecked = {name: reason for name, reason in stored.not_checked.items() if name not in looked}
    unchecked |= {name: told.not_checked[name] for name in looked if name in told.not_checked}
    return replace(
        stored,
        anomalies={name: anomalies[name] for name in in_order if name in anomalies},
        not_checked=unchecked,
        broken={**stored.broken, **told.broken},
        checked=[*stored.checked, *(name for name in looked if name not in unchecked)],
    )


def _adds(name: str, stored: CheckResult) -> bool:
    """Whether the history is heard beside the tables, which found nothing.

    Not of order where lines of a journal are gone: what a client was given may be among them.
    """
    if name in stored.anomalies:
        return False
    whole = all(reason.code is not ReasonCode.INCOMPLETE_EVIDENCE for reason in stored.broken.values())
    return name in WITHIN or (whole and checker_of(name).family == ORDER)


def _as_of_a_run(found: AnomalyFindings) -> AnomalyFindings:
    """With the places and times of its examples under the names that those of stored runs have."""
    examples = [_renamed(example) for example in found.examples]
    return replace(found, examples=[one for one in examples if isinstance(one, dict)])


def _renamed(thing: object) -> object:
    if isinstance(thing, list):
        return [_renamed(one) for one in thing]
    if not isinstance(thing, dict):
        return thing
    body = {name: _renamed(value) for name, value in thing.items()}
    key = body.get("key")
    place = KEY.fullmatch(key) if isinstance(key, str) else None
    if place is not None:
        body = {"topic": place[1], "partition": int(place[2]), **body}
    times = {"call_ns": body.get("invoke_ns"), "return_ns": body.get("complete_ns")}
    return {**body, **{name: time_ns for name, time_ns in times.items() if time_ns is not None}}


def _permitted(found: AnomalyFindings, by: str | None) -> AnomalyFindings:
    return found if found.allowed or by is None else replace(found, allowed=True, allowed_by=by)
