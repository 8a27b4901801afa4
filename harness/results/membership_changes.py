"""What moved when workers joined and left: told in `metadata.json` and `verdict.json`, beside the faults."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class MembershipChange:
    """One change of a stage's workers, and the partitions that moved by it. Times are seconds since the run began."""

    stage: str
    joined: str | None  # the journal of the worker that joined
    left: str | None
    start_s: float
    end_s: float
    to: Sequence[str] = ()  # the partitions that who joined was given
    away: Sequence[str] = ()  # those that who left had had, and others were given
    why: str = ""  # it was not carried out whole

    @property
    def partitions(self) -> Sequence[str]:
        """All that moved."""
        return sorted({*self.to, *self.away})

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "MembershipChange":
        """The inverse of `as_json`. Raises TypeError."""
        moved = cls(**{**body, "to": tuple(body.get("to", ())), "away": tuple(body.get("away", ()))})
        named = all(isinstance(one, str | None) for one in (moved.joined, moved.left))
        if not named or not all(isinstance(one, str) for one in moved.partitions):
            raise TypeError(f"no change of workers is {body!r}")
        return moved

    def as_json(self) -> dict[str, Any]:
        """As it stands in `churn`."""
        return asdict(self)
