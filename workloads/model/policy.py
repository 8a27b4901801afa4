"""How the loop works: the default is right, and each defect is one change to it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from harness.model.vocabulary import Isolation, WorkerStep
from harness.roles.transactions import DEFAULT_HANDLING as HANDLED_RIGHT
from harness.roles.transactions import ErrorHandling


class Delivery(StrEnum):
    """How the outputs of a batch get into Kafka, and when its inputs count as done."""

    TRANSACTIONS = "transactions"  # both at once, in a transaction
    PINNED = "pinned-transactions"  # the same, by a producer for each input partition
    MIXED = "mixed-transactions"  # random sends and polls in a transaction; no input leads to an output
    IDEMPOTENT = "idempotent"  # outputs, each once; then the offsets
    AT_LEAST_ONCE = "at-least-once"  # outputs, some of them twice where an answer was lost; then the offsets
    AT_MOST_ONCE = "at-most-once"  # the offsets; then outputs, none of which is sent again
    STORED = (
        "store-transactions"  # into a store, with the position of the inputs in the store's own transaction
    )
    RELAYED = "relayed-transactions"  # out of a store: published in a transaction, and then marked as done
    KEYED = "store-by-key"  # into a store, once by a unique key of where it comes from; then the offsets

    @property
    def transactional(self) -> bool:
        """Whether there are transactions of Kafka's."""
        return self in (self.TRANSACTIONS, self.PINNED, self.MIXED, self.RELAYED)

    @property
    def stored(self) -> bool:
        """Whether it writes into a store alone."""
        return self in (self.STORED, self.KEYED)

    @property
    def grouped(self) -> bool:
        """Whether the workers of a stage share its inputs in a consumer group."""
        return self not in (self.MIXED, self.RELAYED)

    @property
    def transforms(self) -> bool:
        """Whether a stage takes inputs, and makes outputs of them."""
        return self is not self.MIXED


@dataclass(frozen=True)
class Policy:
    """One way of working."""

    offsets: str = "in-transaction"  # or after-commit, before-transaction: outside it; auto: by the client
    rewind: bool = True  # seek back after an abort
    stable_id: bool = True  # the transactional id outlives a restart of the worker
    member_metadata: bool = True  # send_offsets bears the metadata of the consumer that polls
    idempotent: bool = True  # of a delivery that is, producers are
    outside: frozenset[str] = frozenset()  # output names of outputs that are sent outside the transaction
    shared_id: bool = False  # all workers of a stage have one transactional id
    acks: str = "all"
    largest_bytes: int | None = None  # of a record that a producer takes
    handling: ErrorHandling = HANDLED_RIGHT  # of what goes wrong in a transaction
    keeps_producers: bool = False  # the producer of a partition that went away serves the next one that comes
    treats_unknown_as_ok: bool = False  # goes on after an outcome that nobody knows as if it were ok
    side_effect: str | None = (
        None  # the table into which it writes each input at once, inside the transaction
    )
    marks_before_send: bool = False  # rows of a store count as done before they are published
    takes_after_last: bool = False  # of a store the rows beyond the last one that was published are taken
    stores_position: bool = True  # a store takes its inputs' position in the transaction of their effects
    restore_isolation: Isolation = Isolation.READ_COMMITTED  # at which a stage reads its own state back
    null_as_empty: bool = False  # a value that is null is sent as an empty one
    drops_headers: bool = False  # outputs are sent without the headers of their own
    downstream_isolation: Isolation | None = (
        None  # the isolation of every stage but the first; None: as promised
    )

    def isolation(self, place: int, promised: Isolation) -> Isolation:
        """At which isolation the stage at that place reads; one that reads what it writes is behind the first."""
        return self.downstream_isolation if self.downstream_isolation and place > 0 else promised


RIGHT = Policy()

_TAKING = (WorkerStep.BEFORE_POLL, WorkerStep.AFTER_POLL, WorkerStep.AFTER_TRANSFORM)
_STEPS: Mapping[Delivery, tuple[WorkerStep, ...]] = {
    Delivery.TRANSACTIONS: tuple(WorkerStep),
    Delivery.PINNED: tuple(WorkerStep),
    Delivery.MIXED: tuple(
        step for step in WorkerStep if step not in (WorkerStep.AFTER_TRANSFORM, WorkerStep.AFTER_OFFSETS)
    ),
    Delivery.IDEMPOTENT: (*_TAKING, WorkerStep.AFTER_SEND, WorkerStep.AFTER_COMMIT),
    Delivery.AT_LEAST_ONCE: (*_TAKING, WorkerStep.AFTER_SEND, WorkerStep.AFTER_COMMIT),
    Delivery.AT_MOST_ONCE: (*_TAKING, WorkerStep.AFTER_COMMIT, WorkerStep.AFTER_SEND),
    Delivery.STORED: (*_TAKING, WorkerStep.AFTER_SEND, WorkerStep.AFTER_COMMIT),
    Delivery.RELAYED: tuple(step for step in WorkerStep if step is not WorkerStep.AFTER_OFFSETS),
    Delivery.KEYED: (*_TAKING, WorkerStep.AFTER_SEND, WorkerStep.AFTER_COMMIT),
}
_IN_TRANSACTION = (WorkerStep.AFTER_SEND, WorkerStep.AFTER_OFFSETS, WorkerStep.BEFORE_COMMIT)
_HELD_AT: Mapping[Delivery, tuple[WorkerStep, ...]] = {
    Delivery.TRANSACTIONS: _IN_TRANSACTION,
    Delivery.PINNED: _IN_TRANSACTION,
    Delivery.MIXED: (WorkerStep.AFTER_SEND, WorkerStep.BEFORE_COMMIT),
    Delivery.IDEMPOTENT: (WorkerStep.AFTER_SEND,),
    Delivery.AT_LEAST_ONCE: (WorkerStep.AFTER_SEND,),
    Delivery.AT_MOST_ONCE: (WorkerStep.AFTER_POLL, WorkerStep.AFTER_TRANSFORM),
    Delivery.STORED: (WorkerStep.AFTER_POLL, WorkerStep.AFTER_TRANSFORM),  # later it holds the store's lock
    Delivery.RELAYED: (WorkerStep.AFTER_SEND, WorkerStep.BEFORE_COMMIT),
    Delivery.KEYED: (WorkerStep.AFTER_POLL, WorkerStep.AFTER_TRANSFORM),
}


def steps(delivery: Delivery, policy: Policy) -> tuple[WorkerStep, ...]:
    """The steps that a worker comes to, in their order."""
    return _reached(_STEPS[delivery], policy)


def zombie_steps(delivery: Delivery, policy: Policy) -> tuple[WorkerStep, ...]:
    """The steps at which it has begun what others would have to do in its place: there a pause makes a zombie."""
    return _reached(_HELD_AT[delivery], policy)


def _reached(steps: tuple[WorkerStep, ...], policy: Policy) -> tuple[WorkerStep, ...]:
    return tuple(
        step for step in steps if step is not WorkerStep.AFTER_OFFSETS or policy.offsets == "in-transaction"
    )
