"""Once into a store by a unique key: each effect bears the name of what it comes from, and is there once.

The loop is that of at-least-once: apply, then commit the group's offsets. What comes again, because a crash came
between the two or because it stands in the topic twice, meets its own key and changes nothing. So the effect names the
input of its input, which a record bears in its header, and not the record's place: two records of one row are one
effect.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from harness.clients.interface import RETRY_S
from harness.clients.records import ClientRecord
from harness.databases.interface import CommitUnknown, DatabaseError
from harness.model.pipeline import TopicPartition
from harness.model.vocabulary import SOURCE_HEADER, Outcome, WorkerStep
from harness.record.events import REFUSED, Ack, Completed, Invoked
from harness.record.naming import Headers, header, parse_sources
from workloads.loop.delivery import OutputBatch, PendingOutput, WorkerContext, commit_offsets, keep_offsets
from workloads.loop.projection import effect_of, store_of


@dataclass(frozen=True)
class InputOrigin:
    """Where an input comes from: no more is known of it than its place."""

    place: tuple[str, int, int]

    def topic(self) -> str:
        """Its topic, or table."""
        return self.place[0]

    def partition(self) -> int:
        """Its partition."""
        return self.place[1]

    def offset(self) -> int:
        """Its offset, or row."""
        return self.place[2]

    def key(self) -> bytes | None:
        """Not known."""
        return None

    def value(self) -> bytes | None:
        """Not known."""
        return None

    def headers(self) -> Headers | None:
        """Not known."""
        return None

    def timestamp(self) -> tuple[int, int]:
        """Not known."""
        return (0, 0)


class KeyedDelivery:
    """A `Deliverer` into a store."""

    def __init__(self, post: WorkerContext) -> None:
        self._post = post
        self._store = store_of(post)

    def open(self) -> None:
        """The store is open."""

    def moved(self, gained: bool, places: Sequence[TopicPartition]) -> None:
        """Whoever has a partition may apply its inputs: what was applied is not applied again."""

    def parcels(self, parcel: OutputBatch) -> Sequence[OutputBatch]:
        """All of it at once."""
        return (parcel,)

    def deliver(self, parcel: OutputBatch) -> Outcome:
        """Apply what the store does not have, then commit the offsets."""
        post, planned = self._post, [_carried(one) for one in parcel.planned]
        op = post.journal.number()
        reach = partial(post.control.pause_at, asked=parcel.asked, claims=parcel.claims)
        post.journal.write(Invoked("send", post.process, op, sends=[one.as_send() for one in planned]))
        outcome, told = Outcome.OK, None
        acks: list[Ack] = []
        try:
            with self._store.transaction() as work:
                done = [work.add_once(effect_of(post, op, n, one)) for n, one in enumerate(planned)]
                acks = [(0, None) if new else REFUSED for new in done]
                reach(WorkerStep.AFTER_SEND)
        except CommitUnknown as error:
            outcome, told = Outcome.INFO, str(error)
        except DatabaseError as error:
            outcome, told = Outcome.FAIL, str(error)
            post.control.listen(RETRY_S)
        answers = acks if outcome is Outcome.OK else None
        post.journal.write(Completed(outcome, "send", post.process, op, acks=answers, error=told))
        if outcome is not Outcome.OK:
            keep_offsets(post, parcel.positions, told)
            return outcome
        reach(WorkerStep.AFTER_COMMIT)
        return commit_offsets(post, parcel.positions)


def _carried(one: PendingOutput) -> PendingOutput:
    """The same, of the inputs that its inputs name."""
    return PendingOutput([origin for record in one.sources for origin in _origins(record)], one.output)


def _origins(record: ClientRecord) -> list[ClientRecord]:
    return [InputOrigin(place) for place in parse_sources(header(record.headers(), SOURCE_HEADER))]
