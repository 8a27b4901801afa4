"""How long a fault hurt: when the pipeline committed again, its gaps, and when it was back to normal."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

COMPARED_WITH_NORMAL = ("rate_back_s", "latency_back_s", "lag_back_s")
"""The values of `Liveness` that are measured against what was normal before the fault."""
LEAST_BEFORE_S = 3
"""A median of fewer seconds before the fault says nothing: then it is not known when the value was back."""


@dataclass(frozen=True)
class Liveness:
    """The progress of a pipeline in the window of one fault. Durations are seconds. None: it did not happen, or the
    evidence does not show it.

    The window begins when the fault is injected. It ends when the next fault is injected, but not before this fault
    was healed. At the latest it ends with the load, when no more inputs arrive. If the fault was healed later than
    that, it ends with the last commit.

    A value is back in its band if it is within 25 % of its median in the ten seconds before the fault, or better, for
    two seconds.
    """

    first_commit_s: float | None = (
        None  # from the injection to the next commit; of a rule, from its first act
    )
    first_commit_after_heal_s: float | None = None  # from the heal to the first commit that followed
    longest_gap_s: float | None = None  # the longest time without a commit
    worst_partition: str | None = (
        None  # the output partition with the longest time without a commit: "invoices/2"
    )
    worst_partition_gap_s: float | None = None
    lso_still_s: float | None = None  # the longest time that the LSO of a partition stood while its end moved
    lso_partition: str | None = None
    rate_back_s: float | None = None  # from the injection until commits per second are back in their band
    latency_back_s: float | None = None  # the same for the latency of commits
    lag_back_s: float | None = None  # the same for the lag
    aborted: int | None = None  # transactions that were aborted
    fenced: int | None = None  # transactions that were fenced
    rebalances: int | None = None  # how often consumers were assigned partitions
    bound_s: float | None = None  # the longest gap that the time-outs in force explain for this kind of fault
    seconds_before: int | None = None  # of load before the fault that say what is normal, at most ten
    not_known: str | None = None  # why nothing is known; all others are None then

    @property
    def normal_known(self) -> bool:
        """Return True if the load lasted `LEAST_BEFORE_S` before the fault. A shorter load shows no normal values."""
        return self.seconds_before is None or self.seconds_before >= LEAST_BEFORE_S

    @property
    def normal_after_s(self) -> float | None:
        """From the injection until rate, latency and lag are back in their bands. None: not all were seen back."""
        back = [getattr(self, name) for name in COMPARED_WITH_NORMAL]
        return None if None in back else max(filter(None, back), default=0.0)

    @property
    def stalled(self) -> bool:
        """Return whether the longest gap is longer than the bound."""
        return (
            self.longest_gap_s is not None and self.bound_s is not None and self.longest_gap_s > self.bound_s
        )

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "Liveness":
        """Read what `as_json` returned. Raises TypeError."""
        liveness = cls(**body)
        for field in fields(cls):
            if not _TYPE_CHECKS[field.type](getattr(liveness, field.name)):
                raise TypeError(f"{field.name} of a liveness cannot be {getattr(liveness, field.name)!r}")
        return liveness

    def as_json(self) -> dict[str, Any]:
        """Return the value of `liveness` in an entry of `faults`."""
        return asdict(self)


def _is_duration(value: object) -> bool:
    if value is None:
        return True
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


_TYPE_CHECKS: Mapping[Any, Any] = {
    float | None: _is_duration,
    int | None: lambda value: value is None or (type(value) is int and value >= 0),
    str | None: lambda value: isinstance(value, str | None),
}
"""By type of a field: a function that returns whether a JSON value has this type."""
