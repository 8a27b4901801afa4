"""Delivery policies: the default is correct, and each defect changes one of its settings."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from harness.model.vocabulary import Isolation, WorkerStep
from harness.roles.transactions import DEFAULT_HANDLING, ErrorHandling


class Delivery(StrEnum):
    """How the outputs of a batch reach Kafka or a database, and when its offsets are committed."""

    TRANSACTIONS = "transactions"  # outputs and offsets in one transaction
    PINNED = "pinned-transactions"  # the same, with one producer for each input partition
    PROGRAMS = (
        "programs"  # small programs of transactions, one for each partition, that the run orders one by one
    )
    PROGRAMS_OF_MEMBERS = "programs-of-members"  # the same, and the workers are members of their group
    MIXED = "mixed-transactions"  # random sends and polls in a transaction; no input leads to an output
    IDEMPOTENT = "idempotent"  # outputs by an idempotent producer; then the offsets
    AT_LEAST_ONCE = "at-least-once"  # outputs, twice if a response was lost; then the offsets
    AT_MOST_ONCE = "at-most-once"  # the offsets; then the outputs, without retries
    STORED = (
        "store-transactions"  # into a database, with the position of the inputs in the database transaction
    )
    RELAYED = (
        "relayed-transactions"  # out of a database: rows are published in a transaction, then marked as done
    )
    KEYED = "store-by-key"  # into a database, once by a unique key derived from the input; then the offsets

    @property
    def transactional(self) -> bool:
        """Whether workers use Kafka transactions."""
        return self in (
            self.TRANSACTIONS,
            self.PINNED,
            self.PROGRAMS,
            self.PROGRAMS_OF_MEMBERS,
            self.MIXED,
            self.RELAYED,
        )

    @property
    def stored(self) -> bool:
        """Whether workers write to a database only."""
        return self in (self.STORED, self.KEYED)

    @property
    def grouped(self) -> bool:
        """Whether the workers of a stage share its inputs through a consumer group."""
        return self not in (self.MIXED, self.RELAYED)

    @property
    def transforms(self) -> bool:
        """Whether the stage makes outputs from inputs."""
        return self is not self.MIXED


@dataclass(frozen=True)
class Policy:
    """How a worker delivers. Every value except the default is a planted bug, or part of one."""

    offsets: str = (
        "in-transaction"  # or "after-commit", "before-transaction", or "auto": the client commits them
    )
    rewind: bool = True  # seek back after an abort or a failure
    stable_id: bool = True  # the transactional id outlives a restart of the worker
    member_metadata: bool = True  # send_offsets passes the group metadata of the polling consumer
    idempotent: bool = True  # whether the producers of Delivery.IDEMPOTENT are idempotent
    outside: frozenset[str] = frozenset()  # names of the outputs that are sent outside the transaction
    shared_id: bool = False  # all workers of a stage have one transactional id
    acks: str = "all"
    largest_bytes: int | None = None  # the largest record that the producer accepts
    handling: ErrorHandling = DEFAULT_HANDLING  # how errors of a transaction are handled
    keeps_producers: bool = False  # reuse the producer of a lost partition for the next gained one
    treats_unknown_as_ok: bool = False  # treat an outcome of info as ok
    side_effect: str | None = None  # during a transaction, each input is also written to this table at once
    marks_before_send: bool = False  # mark rows as done before they are published
    takes_after_last: bool = False  # take the rows above the last published one
    stores_position: bool = True  # store the position in the database transaction of the effects
    restore_isolation: Isolation = Isolation.READ_COMMITTED  # isolation level when a stage restores its sums
    null_as_empty: bool = False  # send a null value as an empty one
    drops_headers: bool = False  # send outputs without the headers that the transform gave them
    downstream_isolation: Isolation | None = (
        None  # isolation level of every stage except the first; None: as the stage promises
    )

    def isolation(self, stage_index: int, promised: Isolation) -> Isolation:
        """Return the isolation level of the stage at `stage_index` (from 0).

        A stage that reads its own outputs passes an index above 0, because it is also its own downstream stage.
        """
        return self.downstream_isolation if self.downstream_isolation and stage_index > 0 else promised


CORRECT = Policy()

_BEFORE_DELIVERY = (WorkerStep.BEFORE_POLL, WorkerStep.AFTER_POLL, WorkerStep.AFTER_TRANSFORM)
_STEPS: Mapping[Delivery, tuple[WorkerStep, ...]] = {
    Delivery.TRANSACTIONS: tuple(WorkerStep),
    Delivery.PINNED: tuple(WorkerStep),
    Delivery.PROGRAMS: (),
    Delivery.PROGRAMS_OF_MEMBERS: (),
    Delivery.MIXED: tuple(
        step for step in WorkerStep if step not in (WorkerStep.AFTER_TRANSFORM, WorkerStep.AFTER_OFFSETS)
    ),
    Delivery.IDEMPOTENT: (*_BEFORE_DELIVERY, WorkerStep.AFTER_SEND, WorkerStep.AFTER_COMMIT),
    Delivery.AT_LEAST_ONCE: (*_BEFORE_DELIVERY, WorkerStep.AFTER_SEND, WorkerStep.AFTER_COMMIT),
    Delivery.AT_MOST_ONCE: (*_BEFORE_DELIVERY, WorkerStep.AFTER_COMMIT, WorkerStep.AFTER_SEND),
    Delivery.STORED: (*_BEFORE_DELIVERY, WorkerStep.AFTER_SEND, WorkerStep.AFTER_COMMIT),
    Delivery.RELAYED: tuple(step for step in WorkerStep if step is not WorkerStep.AFTER_OFFSETS),
    Delivery.KEYED: (*_BEFORE_DELIVERY, WorkerStep.AFTER_SEND, WorkerStep.AFTER_COMMIT),
}
_IN_TRANSACTION = (WorkerStep.AFTER_SEND, WorkerStep.AFTER_OFFSETS, WorkerStep.BEFORE_COMMIT)
_ZOMBIE_STEPS: Mapping[Delivery, tuple[WorkerStep, ...]] = {
    Delivery.TRANSACTIONS: _IN_TRANSACTION,
    Delivery.PINNED: _IN_TRANSACTION,
    Delivery.PROGRAMS: (),
    Delivery.PROGRAMS_OF_MEMBERS: (),
    Delivery.MIXED: (WorkerStep.AFTER_SEND, WorkerStep.BEFORE_COMMIT),
    Delivery.IDEMPOTENT: (WorkerStep.AFTER_SEND,),
    Delivery.AT_LEAST_ONCE: (WorkerStep.AFTER_SEND,),
    Delivery.AT_MOST_ONCE: (WorkerStep.AFTER_POLL, WorkerStep.AFTER_TRANSFORM),
    Delivery.STORED: (
        WorkerStep.AFTER_POLL,
        WorkerStep.AFTER_TRANSFORM,
    ),  # at later steps it has a lock in the database
    Delivery.RELAYED: (WorkerStep.AFTER_SEND, WorkerStep.BEFORE_COMMIT),
    Delivery.KEYED: (WorkerStep.AFTER_POLL, WorkerStep.AFTER_TRANSFORM),
}


def steps(delivery: Delivery, policy: Policy) -> tuple[WorkerStep, ...]:
    """Return the steps that a worker reaches, in order."""
    return _supported(_STEPS[delivery], policy)


def zombie_steps(delivery: Delivery, policy: Policy) -> tuple[WorkerStep, ...]:
    """Return the steps at which pausing the worker leaves a zombie, because others will take over its inputs."""
    return _supported(_ZOMBIE_STEPS[delivery], policy)


def _supported(steps: tuple[WorkerStep, ...], policy: Policy) -> tuple[WorkerStep, ...]:
    return tuple(
        step for step in steps if step is not WorkerStep.AFTER_OFFSETS or policy.offsets == "in-transaction"
    )
