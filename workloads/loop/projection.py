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
from workloads.loop.delivery import OutputBatch, PendingOutput, WorkerContext, commit_offsets, keep_offsets


def store_of(post: WorkerContext) -> Database:
    """The store of a pipeline that has one."""
    assert post.store is not None, "a worker whose pipeline writes a store is told which"
    return post.store


def effect_of(post: WorkerContext, op: int, n: int, one: PendingOutput) -> SideEffect:
    """The effect that an output to a table is."""
    value, out = value_name(post.journal.name, op, n), one.output
    sources = header(output_headers(value, out.output_name, one.places), SOURCE_HEADER) or ""
    return SideEffect(out.topic, value, out.output_name, sources, out.key, out.value)


class ProjectionDelivery:
    """A `Deliverer` into a store. `states`: the table in which it counts the changes of each key, if any."""

    def __init__(self, post: WorkerContext, states: str | None) -> None:
        self._post = post
        self._store = store_of(post)
        self._states = states
        self._group = post.consumer_settings.group
        self._known: dict[TopicPartition, int | None] = {}  # how far the inputs were applied when last asked

    def open(self) -> None:
        """The store is open."""

    def moved(self, gained: bool, places: Sequence[TopicPartition]) -> None:
        """Whoever gets a partition asks the store where to go on."""
        for place in places:
            self._known.pop(place, None)

    def parcels(self, parcel: OutputBatch) -> Sequence[OutputBatch]:
        """All of it at once."""
        return (parcel,)

    def deliver(self, parcel: OutputBatch) -> Outcome:
        """Apply what the store does not have, and move its position; then move the group's."""
        post = self._post
        op = post.journal.number()
        try:
            self._ask(parcel.positions.partitions.values())
        except DatabaseError as error:
            post.journal.write(Invoked("send", post.process, op))
            post.journal.write(Completed(Outcome.FAIL, "send", post.process, op, error=str(error)))
            keep_offsets(post, parcel.positions, str(error))
            post.control.listen(RETRY_S)
            return Outcome.FAIL
        due = OutputBatch(
            [one for one in parcel.planned if self._is_new(one)], parcel.positions, parcel.asked
        )
        reach = partial(post.control.pause_at, asked=parcel.asked, claims=parcel.claims)
        post.journal.write(Invoked("send", post.process, op, sends=due.as_sends()))
        outcome, told = Outcome.OK, None
        try:
            with self._store.transaction() as work:
                for n, one in enumerate(due.planned):
                    self._apply(work, op, n, one)
                if self._in_store:
                    self._move(work, due)
                reach(WorkerStep.AFTER_SEND)
        except CommitUnknown as error:
            outcome, told = Outcome.INFO, str(error)
        except DatabaseError as error:
            outcome, told = Outcome.FAIL, str(error)
            post.control.listen(RETRY_S)
        acks = [(0, None)] * len(due.planned) if outcome is Outcome.OK else None
        post.journal.write(Completed(outcome, "send", post.process, op, acks=acks, error=told))
        if outcome is not Outcome.OK:
            self._known.clear()
            keep_offsets(post, parcel.positions, told)
            return outcome
        for key, place in parcel.positions.partitions.items() if self._in_store else ():
            self._known[place] = max(self._known[place] or 0, parcel.claims[key][1])
        reach(WorkerStep.AFTER_COMMIT)
        return commit_offsets(post, parcel.positions)

    @property
    def _in_store(self) -> bool:
        """Whether the store keeps the position of the inputs."""
        return self._post.policy.position_kept

    def _ask(self, places: Iterable[TopicPartition]) -> None:
        """Know how far the inputs of these partitions are applied. Raises `DatabaseError`."""
        for place in places:
            if place not in self._known:
                self._known[place] = self._store.position(self._group, place) if self._in_store else None

    def _is_new(self, one: PendingOutput) -> bool:
        return all(offset >= (self._known[topic, number] or 0) for topic, number, offset in one.places)

    def _apply(self, work: DatabaseTransaction, op: int, n: int, one: PendingOutput) -> None:
        work.add(effect_of(self._post, op, n, one))
        if self._states is not None and one.output.key is not None:
            work.change(self._states, one.output.key, one.output.value)

    def _move(self, work: DatabaseTransaction, parcel: OutputBatch) -> None:
        """Move the positions on, never back."""
        for key, place in parcel.positions.partitions.items():
            known, (_, following) = self._known[place], parcel.claims[key]
            if following > (known or 0):
                work.advance(self._group, place, known, following)
