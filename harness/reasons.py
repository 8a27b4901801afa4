"""Reasons: why a run cannot be called valid, or was not checked for something, for people and for programs.

A reason has a code that programs rely on, and a text that may be improved at any time. Nothing reads the text
back: what a program needs stands in `code` and `subject`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Reason:
    """One reason. `text` is a sentence without a full stop."""

    code: str  # in kebab case: not-drained, fault-did-not-act, reader-short, ...
    text: str
    subject: str = ""  # what it is about: a partition, a worker, a fault, a table, an anomaly
    remedy: str = ""  # what the user can do about it; empty: nothing is known to help

    def as_json(self) -> dict[str, str]:
        """As it stands in `verdict.json` and `facts.json`; what is empty is left out."""
        body = {"code": self.code, "subject": self.subject, "text": self.text, "remedy": self.remedy}
        return {key: value for key, value in body.items() if value}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "Reason":
        """The inverse of `as_json`. Raises KeyError, TypeError."""
        if not isinstance(body, Mapping):
            raise TypeError(f"a reason has a code and a text, and {body!r} has none")
        words = {key: body.get(key, "") for key in ("subject", "remedy")}
        if not all(isinstance(word, str) for word in (body["code"], body["text"], *words.values())):
            raise TypeError(f"a reason's parts are texts, not {dict(body)}")
        return cls(body["code"], body["text"], **words)


EXTERNAL_ONLY = Reason("external-only", "applies only to external histories")
"""Why a check that a stored run is not put to stands in `not_checked`."""
NO_ORDER = Reason("no-order", "the workload promises no order")
NO_AGGREGATE = Reason("no-aggregate", "the workload states no aggregate")
NO_INPUTS = Reason("no-inputs", "no input of this workload has to lead to anything")
NO_TRANSACTIONS = Reason("no-transactions", "the workload has no transactions")
NO_JOURNALS = Reason(
    "no-journals", "the pipeline keeps no journals, so nobody knows what it was told or given"
)
NO_OFFSETS_WITHIN = Reason("none-within", "the workload commits no offset within a transaction")
"""And those of what the workload does not do."""
NOT_APPLICABLE = frozenset(
    reason.code
    for reason in (
        EXTERNAL_ONLY,
        NO_ORDER,
        NO_AGGREGATE,
        NO_INPUTS,
        NO_TRANSACTIONS,
        NO_OFFSETS_WITHIN,
        NO_JOURNALS,
    )
)
"""Codes of reasons for which nothing is missing."""
