"""Unusual but legal transactions.

Some are empty, some have only offsets or only outputs, and some stay open for longer than their time-out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from harness.clients.interface import ClientError, PartitionOffset
from harness.common.errors import WaitTimeout
from harness.common.waiting import wait_for
from harness.record.events import ErrorNoted
from harness.roles.transactions import Transaction
from workloads.loop.delivery import OutputBatch, PendingOutput, WorkerContext
from workloads.model.workload import Output

NOTE = "note"
"""The output name of an output without an input."""
LATE_S = 20.0
"""How long to wait for an abort after the time-out. The coordinator looks for expired transactions only every few
seconds.
"""
OFFSET_TIMEOUT_S = 5.0


class ExtraContents(StrEnum):
    """The contents of an extra transaction that is committed before that of a batch."""

    NOTHING = "nothing"
    OFFSETS = "offsets"  # the group's current offsets again
    OUTPUTS = "outputs"  # an output without an input


@dataclass(frozen=True)
class UnusualShares:
    """The share of batches that follow an extra transaction, and of those whose transaction exceeds its time-out."""

    empty: float = 0.0
    overrun: float = 0.0

    def draw_preceding(self, rng: Random, notes: str | None) -> ExtraContents | None:
        """Draw the contents of an extra transaction to commit before a batch. None: there is no extra transaction.

        `notes` is the topic for outputs without an input; None: the stage has no such topic.
        """
        if not self.empty or rng.random() >= self.empty:
            return None
        return rng.choice(
            [ExtraContents.NOTHING, ExtraContents.OFFSETS, *([ExtraContents.OUTPUTS] if notes else [])]
        )

    def overruns(self, rng: Random) -> bool:
        """Draw whether the transaction of a batch is held until its time-out has passed."""
        return bool(self.overrun) and rng.random() < self.overrun


def output_without_input(context: WorkerContext, topic: str) -> PendingOutput:
    """Return an output without an input."""
    return PendingOutput((), Output(topic, NOTE, context.journal.name.encode(), b"still here"))


def first_offsets(output_batch: OutputBatch, metadata: str) -> Sequence[PartitionOffset]:
    """Return the offsets at which the batch begins. The group has already committed them."""
    return [
        PartitionOffset(first.topic, first.partition, first.offset, metadata)
        for first in output_batch.positions.first_positions
        if first.offset is not None
    ]


def hold_until_aborted(context: WorkerContext, txn: Transaction, output_batch: OutputBatch) -> None:
    """Wait until the coordinator has aborted the transaction because of its time-out, or the run stops the worker.

    The abort is visible when the last stable offset is above that of a record of the transaction. If no record of the
    transaction is acknowledged, return at once.
    """
    position = _acknowledged_position(txn, output_batch)
    if position is None:
        return
    topic, partition, offset = position
    timeout_s = context.txn_timeout_ms / 1000 + LATE_S
    try:
        with context.client.last_stable_offset(
            context.bootstrap, context.journal.name, (topic, partition)
        ) as stable:

            def aborted() -> bool:
                context.control.listen()
                return context.control.stopping or stable(OFFSET_TIMEOUT_S) > offset

            wait_for(
                aborted,
                f"the abort of the transaction with the record {topic}/{partition} @ {offset}",
                timeout_s,
                every_s=0.2,
            )
    except (ClientError, WaitTimeout) as error:  # continue: the commit will show the outcome
        context.journal.write(ErrorNoted(op=txn.op, error=str(error)))


def _acknowledged_position(txn: Transaction, output_batch: OutputBatch) -> tuple[str, int, int] | None:
    """Return topic, partition and offset of an acknowledged record of the transaction, or None."""
    for pending, ack in zip(output_batch.outputs, txn.acks, strict=True):
        partition, offset = ack or (-1, None)
        if partition >= 0 and offset is not None:
            return pending.output.topic, partition, offset
    return None
