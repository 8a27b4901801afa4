"""Changes of the workers of a stage while the run went on, as `metadata.json` and `verdict.json` list them."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from harness.results import Time


class MembershipChange(Struct, frozen=True):
    """One change of a stage's workers, and the partitions that moved. Times are seconds since the run began."""

    stage: Annotated[str, Meta(description="the stage whose workers changed")]
    joined: Annotated[
        str | None, Meta(description="the journal of the worker that joined; null: none joined")
    ]
    left: Annotated[str | None, Meta(description="the journal of the worker that left; null: none left")]
    start_s: Annotated[Time, Meta(description="when the change began, in seconds since the run began")]
    end_s: Annotated[Time, Meta(description="when it was done")]
    to: Annotated[tuple[str, ...], Meta(description="the partitions that the new worker got")] = ()
    away: Annotated[
        tuple[str, ...],
        Meta(description="the partitions that other workers got from the one that left"),
    ] = ()
    why: Annotated[str, Meta(description="why the change was not carried out completely; empty: it was")] = ""

    @property
    def partitions(self) -> Sequence[str]:
        """All partitions that moved."""
        return sorted({*self.to, *self.away})
