"""Changes of the workers of a stage while the run went on, as `metadata.json` and `verdict.json` list them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class MembershipChange:
    """One change of a stage's workers, and the partitions that moved. Times are seconds since the run began."""

    stage: str
    joined: str | None  # the journal of the worker that joined; None: none joined
    left: str | None  # the journal of the worker that left; None: none left
    start_s: float
    end_s: float
    to: Sequence[str] = ()  # the partitions that the new worker got
    away: Sequence[str] = ()  # the partitions that other workers got from the one that left
    why: str = ""  # why the change was not carried out completely; empty: it was

    @property
    def partitions(self) -> Sequence[str]:
        """All partitions that moved."""
        return sorted({*self.to, *self.away})

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "MembershipChange":
        """Read what `as_json` returned. Raises TypeError."""
        change = cls(**{**body, "to": tuple(body.get("to", ())), "away": tuple(body.get("away", ()))})
        are_names = all(isinstance(journal, str | None) for journal in (change.joined, change.left))
        if not are_names or not all(isinstance(partition, str) for partition in change.partitions):
            raise TypeError(f"{body!r} does not describe a change of workers")
        return change

    def as_json(self) -> dict[str, Any]:
        """Return an entry of `churn`."""
        return asdict(self)
