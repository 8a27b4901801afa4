"""How the loop works: the default is right, and each defect is one change to it."""

from dataclasses import dataclass

from harness.history import Isolation, Step


@dataclass(frozen=True)
class Policy:
    """One way of working."""

    offsets: str = "in-transaction"  # or "after-commit": by the consumer, outside the transaction
    rewind: bool = True  # seek back after an abort
    stable_id: bool = True  # the transactional id outlives a restart of the worker
    member_metadata: bool = True  # send_offsets bears the metadata of the consumer that polls
    downstream: Isolation | None = None  # the isolation of every stage but the first; None: as promised

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps that a worker comes to, in their order."""
        return tuple(
            step for step in Step if step is not Step.AFTER_OFFSETS or self.offsets == "in-transaction"
        )

    def isolation(self, place: int, promised: Isolation) -> Isolation:
        """At which isolation the stage at that place reads."""
        return self.downstream if self.downstream and place > 0 else promised


RIGHT = Policy()
