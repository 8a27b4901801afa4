"""Reasons: why a run cannot be called valid, or was not checked for something, for people and for programs.

A reason has a code that programs rely on, and a text that may be improved at any time. Nothing reads the text
back: what a program needs stands in `code` and `subject`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

UNSPECIFIED = "unspecified"
"""The code of a reason in a store of an earlier version, which had texts alone."""


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
    def from_json(cls, body: str | Mapping[str, Any]) -> "Reason":
        """The inverse of `as_json`; a bare text is one of an earlier version. Raises KeyError, TypeError."""
        if isinstance(body, str):
            return cls(UNSPECIFIED, body)
        words = {key: body.get(key, "") for key in ("subject", "remedy")}
        if not all(isinstance(word, str) for word in (body["code"], body["text"], *words.values())):
            raise TypeError(f"a reason's parts are texts, not {dict(body)}")
        return cls(body["code"], body["text"], **words)
