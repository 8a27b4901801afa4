"""Transactions that are legal and seldom: with nothing in them, with offsets or outputs alone, and held too long."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from harness.clients.interface import ClientError, StartPosition
from harness.common.errors import WaitTimeout
from harness.common.waiting import wait_for
from harness.record.events import ErrorNoted
from harness.roles.transactions import Transaction
from workloads.loop.delivery import OutputBatch, PendingOutput, WorkerContext
from workloads.model.workload import Output

NOTE = "note"
"""The output name of an output that comes of no input."""
LATE_S = 20.0
"""How long after its time-out a transaction is waited for to be aborted: the coordinator looks now and then."""
ASK_S = 5.0


class ExtraContents(StrEnum):
    """What is in a transaction that is committed beside those of the inputs."""

    NOTHING = "nothing"
    OFFSETS = "offsets"  # those that the group has, once more
    OUTPUTS = "outputs"  # of no input


@dataclass(frozen=True)
class UnusualShares:
    """How often a batch is accompanied, or delivered, by an unusual transaction."""

    empty: float = 0.0
    overrun: float = 0.0

    def preceding(self, rng: Random, notes: str | None) -> ExtraContents | None:
        """What is committed before a batch. `notes`: the topic for outputs of no input, if there is one."""
        if not self.empty or rng.random() >= self.empty:
            return None
        return rng.choice(
            [ExtraContents.NOTHING, ExtraContents.OFFSETS, *([ExtraContents.OUTPUTS] if notes else [])]
        )

    def overruns(self, rng: Random) -> bool:
        """Whether the transaction of a batch is held until it has outlived its time-out."""
        return bool(self.overrun) and rng.random() < self.overrun


def output_without_input(context: WorkerContext, topic: str) -> PendingOutput:
    """An output that comes of no input."""
    return PendingOutput((), Output(topic, NOTE, context.journal.name.encode(), b"still here"))


def first_offsets(output_batch: OutputBatch, metadata: str) -> Sequence[StartPosition]:
    """The offsets at which a batch begins: the group has them already."""
    return [
        StartPosition(one.topic, one.partition, one.offset, metadata)
        for one in output_batch.positions.first_positions
        if one.offset is not None
    ]


def hold_until_aborted(context: WorkerContext, txn: Transaction, output_batch: OutputBatch) -> None:
    """Do nothing until the coordinator has aborted the transaction for its time-out, or the run says stop.

    The abort shows where the last stable offset passes a record of the transaction. One without an acknowledged
    record is not held.
    """
    placed = _acknowledged_place(txn, output_batch)
    if placed is None:
        return
    topic, partition, offset = placed
    bound_s = context.txn_timeout_ms / 1000 + LATE_S
    try:
        with context.client.last_stable_offset(
            context.bootstrap, context.journal.name, (topic, partition)
        ) as stable:

            def aborted() -> bool:
                context.control.listen()
                return context.control.stopping or stable(ASK_S) > offset

            wait_for(
                aborted, f"the abort of what stands at {topic}/{partition} {offset}", bound_s, every_s=0.2
            )
    except (ClientError, WaitTimeout) as error:  # it goes on all the same, and meets what it meets
        context.journal.write(ErrorNoted(op=txn.op, error=str(error)))


def _acknowledged_place(txn: Transaction, output_batch: OutputBatch) -> tuple[str, int, int] | None:
    """The place of a record of the transaction, if one is known."""
    for one, ack in zip(output_batch.outputs, txn.acks, strict=True):
        partition, offset = ack or (-1, None)
        if partition >= 0 and offset is not None:
            return one.output.topic, partition, offset
    return None
