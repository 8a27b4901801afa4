"""The defect `side-effect`: a card is charged during the transaction, and an abort does not undo the charge."""

from harness.databases.interface import DatabaseError
from harness.model.vocabulary import Outcome
from harness.record.events import Completed, Invoked
from workloads.loop.delivery import OutputBatch, PendingOutput, WorkerContext
from workloads.loop.projection import effect_of, store_of
from workloads.model.workload import Output

OUTPUT_NAME = "charge"


class SideEffects:
    """Writes a row for each input into a table of a database, immediately."""

    def __init__(self, context: WorkerContext, table: str) -> None:
        self._context = context
        self._store = store_of(context)
        self._table = table

    def write(self, output_batch: OutputBatch) -> None:
        """Charge once for every input of the batch."""
        context, inputs = self._context, {}
        for pending in output_batch.outputs:
            for record, position in zip(pending.sources, pending.input_positions, strict=True):
                inputs[position] = record
        charges = [
            PendingOutput((record,), Output(self._table, OUTPUT_NAME, record.key(), b"charged"))
            for record in inputs.values()
        ]
        op = context.journal.number()
        sends = [charge.as_send() for charge in charges]
        context.journal.write(Invoked("send", context.process, op, sends=sends))
        outcome, error_text = Outcome.OK, None
        try:
            with self._store.transaction() as work:
                for n, charge in enumerate(charges):
                    work.add(effect_of(context, op, n, charge))
        except DatabaseError as error:
            outcome, error_text = Outcome.INFO, str(error)
        acks = [(0, None)] * len(charges) if outcome is Outcome.OK else None
        context.journal.write(Completed(outcome, "send", context.process, op, acks=acks, error=error_text))
