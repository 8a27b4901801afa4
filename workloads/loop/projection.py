"""Exactly once into a store: the effects, and how far their inputs are applied, in one transaction of the store.

Kafka's own transactions end where Kafka ends. Here the store says what is done: a worker that gets a partition asks
the store where to go on, leaves out what the store has already, and moves the store's position only from where it
knows it to be, so that a zombie's transaction is refused. The group's offsets follow, for whoever looks at the lag.
"""

from collections.abc import Iterable, Sequence
from functools import partial

from harness.clients.interface import RETRY_S
from harness.databases.interface import (
    CommitUnknown,
    Database,
    DatabaseError,
    DatabaseTransaction,
    SideEffect,
)
from harness.model.pipeline import TopicPartition
from harness.model.vocabulary import SOURCE_HEADER, Outcome, WorkerStep
from harness.record.events import Completed, Invoked
from harness.record.naming import header, output_headers, value_name
from workloads.loop.delivery import (
    OutputBatch,
    PendingOutput,
    WorkerContext,
    commit_offsets,
    record_uncommitted,
)


def store_of(context: WorkerContext) -> Database:
    """The store of a pipeline that has one."""
    assert context.store is not None, "a worker whose pipeline writes a store is told which"
    return context.store


def effect_of(context: WorkerContext, op: int, n: int, one: PendingOutput) -> SideEffect:
    """The effect that an output to a table is."""
    value, out = value_name(context.journal.name, op, n), one.output
    sources = header(output_headers(value, out.output_name, one.places), SOURCE_HEADER) or ""
    return SideEffect(out.topic, value, out.output_name, sources, out.key, out.value)


class ProjectionDelivery:
    """A `Deliverer` into a store. `states`: the table in which it counts the changes of each key, if any."""

    def __init__(self, context: WorkerContext, states: str | None) -> None:
        self._context = context
        self._store = store_of(context)
        self._states = states
        self._group = context.consumer_settings.group
        self._stored_positions: dict[
            TopicPartition, int | None
        ] = {}  # how far the inputs were applied when last asked

    def open(self) -> None:
        """The store is open."""

    def partitions_changed(self, gained: bool, places: Sequence[TopicPartition]) -> None:
        """Whoever gets a partition asks the store where to go on."""
        for place in places:
            self._stored_positions.pop(place, None)

    def split(self, output_batch: OutputBatch) -> Sequence[OutputBatch]:
        """All of it at once."""
        return (output_batch,)

    def deliver(self, output_batch: OutputBatch) -> Outcome:
        """Apply what the store does not have, and move its position; then move the group's."""
        context = self._context
        op = context.journal.number()
        try:
            self._load_positions(output_batch.positions.partitions.values())
        except DatabaseError as error:
            context.journal.write(Invoked("send", context.process, op))
            context.journal.write(Completed(Outcome.FAIL, "send", context.process, op, error=str(error)))
            record_uncommitted(context, output_batch.positions, str(error))
            context.control.listen(RETRY_S)
            return Outcome.FAIL
        due = OutputBatch(
            [one for one in output_batch.outputs if self._is_new(one)],
            output_batch.positions,
            output_batch.intended_end,
        )
        reach = partial(context.control.pause_at, asked=output_batch.intended_end, claims=output_batch.claims)
        context.journal.write(Invoked("send", context.process, op, sends=due.as_sends()))
        outcome, error_text = Outcome.OK, None
        try:
            with self._store.transaction() as work:
                for n, one in enumerate(due.outputs):
                    self._apply(work, op, n, one)
                if self._stores_position:
                    self._move_positions(work, due)
                reach(WorkerStep.AFTER_SEND)
        except CommitUnknown as error:
            outcome, error_text = Outcome.INFO, str(error)
        except DatabaseError as error:
            outcome, error_text = Outcome.FAIL, str(error)
            context.control.listen(RETRY_S)
        acks = [(0, None)] * len(due.outputs) if outcome is Outcome.OK else None
        context.journal.write(Completed(outcome, "send", context.process, op, acks=acks, error=error_text))
        if outcome is not Outcome.OK:
            self._stored_positions.clear()
            record_uncommitted(context, output_batch.positions, error_text)
            return outcome
        for key, place in output_batch.positions.partitions.items() if self._stores_position else ():
            self._stored_positions[place] = max(
                self._stored_positions[place] or 0, output_batch.claims[key][1]
            )
        reach(WorkerStep.AFTER_COMMIT)
        return commit_offsets(context, output_batch.positions)

    @property
    def _stores_position(self) -> bool:
        """Whether the store keeps the position of the inputs."""
        return self._context.policy.stores_position

    def _load_positions(self, places: Iterable[TopicPartition]) -> None:
        """Know how far the inputs of these partitions are applied. Raises `DatabaseError`."""
        for place in places:
            if place not in self._stored_positions:
                self._stored_positions[place] = (
                    self._store.position(self._group, place) if self._stores_position else None
                )

    def _is_new(self, one: PendingOutput) -> bool:
        return all(
            offset >= (self._stored_positions[topic, number] or 0) for topic, number, offset in one.places
        )

    def _apply(self, work: DatabaseTransaction, op: int, n: int, one: PendingOutput) -> None:
        work.add(effect_of(self._context, op, n, one))
        if self._states is not None and one.output.key is not None:
            work.change(self._states, one.output.key, one.output.value)

    def _move_positions(self, work: DatabaseTransaction, output_batch: OutputBatch) -> None:
        """Move the positions on, never back."""
        for key, place in output_batch.positions.partitions.items():
            known, (_, following) = self._stored_positions[place], output_batch.claims[key]
            if following > (known or 0):
                work.advance(self._group, place, known, following)
