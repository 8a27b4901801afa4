"""Exactly once into a database by a unique key: each row has a key that is derived from its input.

The loop is that of at-least-once: write the rows, then commit the group's offsets. An input can be consumed again
after a crash between the two, or because the topic has it twice. Then its key exists already, and nothing changes.

The key is made from the source header of the input, which names the outbox row. It is not made from the position of
the input itself. So two records of one outbox row have one effect.
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
from workloads.loop.delivery import (
    OutputBatch,
    PendingOutput,
    WorkerContext,
    commit_offsets,
    record_uncommitted,
)
from workloads.loop.projection import effect_of, store_of


@dataclass(frozen=True)
class InputOrigin:
    """The source of an input, as a `ClientRecord`. Only its topic, partition and offset are known."""

    position: tuple[str, int, int]

    def topic(self) -> str:
        return self.position[0]

    def partition(self) -> int:
        return self.position[1]

    def offset(self) -> int:
        return self.position[2]

    def key(self) -> bytes | None:
        return None

    def value(self) -> bytes | None:
        return None

    def headers(self) -> Headers | None:
        return None

    def timestamp(self) -> tuple[int, int]:
        return (0, 0)


class KeyedDelivery:
    """A `Deliverer` that writes each row once, by a unique key."""

    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self._store = store_of(context)

    def open(self) -> None:
        pass  # the database is open already

    def partitions_changed(self, gained: bool, topic_partitions: Sequence[TopicPartition]) -> None:
        pass  # any owner can write the rows, because a row is never written twice

    def split(self, output_batch: OutputBatch) -> Sequence[OutputBatch]:
        return (output_batch,)

    def deliver(self, output_batch: OutputBatch) -> Outcome:
        """Write the rows that the database does not have, then commit the offsets."""
        context, outputs = self._context, [_with_origins(pending) for pending in output_batch.outputs]
        op = context.journal.number()
        reach = partial(
            context.control.pause_at, intended_end=output_batch.intended_end, claims=output_batch.claims
        )
        context.journal.write(
            Invoked("send", context.process, op, sends=[pending.as_send() for pending in outputs])
        )
        outcome, error_text = Outcome.OK, None
        acks: list[Ack] = []
        try:
            with self._store.transaction() as work:
                added = [
                    work.add_once(effect_of(context, op, n, pending)) for n, pending in enumerate(outputs)
                ]
                acks = [(0, None) if new else REFUSED for new in added]
                reach(WorkerStep.AFTER_SEND)
        except CommitUnknown as error:
            outcome, error_text = Outcome.INFO, str(error)
        except DatabaseError as error:
            outcome, error_text = Outcome.FAIL, str(error)
            context.control.listen(RETRY_S)
        known_acks = acks if outcome is Outcome.OK else None
        context.journal.write(
            Completed(outcome, "send", context.process, op, acks=known_acks, error=error_text)
        )
        if outcome is not Outcome.OK:
            record_uncommitted(context, output_batch.positions, error_text)
            return outcome
        reach(WorkerStep.AFTER_COMMIT)
        return commit_offsets(context, output_batch.positions)


def _with_origins(pending: PendingOutput) -> PendingOutput:
    """Return the output with the sources of its inputs in place of its inputs."""
    return PendingOutput(
        [origin for record in pending.sources for origin in _origins(record)], pending.output
    )


def _origins(record: ClientRecord) -> list[ClientRecord]:
    return [InputOrigin(position) for position in parse_sources(header(record.headers(), SOURCE_HEADER))]
