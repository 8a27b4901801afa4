"""The defect `side-effect`: a card is charged inside the transaction, and a transaction does not take that back."""

from harness.databases.interface import DatabaseError
from harness.model.vocabulary import Outcome
from harness.record.events import Completed, Invoked
from workloads.loop.delivery import OutputBatch, PendingOutput, WorkerContext
from workloads.loop.projection import effect_of, store_of
from workloads.model.workload import Output

OUTPUT_NAME = "charge"


class SideEffects:
    """Writes a row for each input into a table of a store, at once."""

    def __init__(self, post: WorkerContext, table: str) -> None:
        self._post = post
        self._store = store_of(post)
        self._table = table

    def write(self, parcel: OutputBatch) -> None:
        """Charge for every input of the parcel, once in it."""
        post, inputs = self._post, {}
        for one in parcel.planned:
            for record, place in zip(one.sources, one.places, strict=True):
                inputs[place] = record
        charges = [
            PendingOutput((record,), Output(self._table, OUTPUT_NAME, record.key(), b"charged"))
            for record in inputs.values()
        ]
        op = post.journal.number()
        sends = [charge.as_send() for charge in charges]
        post.journal.write(Invoked("send", post.process, op, sends=sends))
        outcome, told = Outcome.OK, None
        try:
            with self._store.transaction() as work:
                for n, charge in enumerate(charges):
                    work.add(effect_of(post, op, n, charge))
        except DatabaseError as error:
            outcome, told = Outcome.INFO, str(error)
        acks = [(0, None)] * len(charges) if outcome is Outcome.OK else None
        post.journal.write(Completed(outcome, "send", post.process, op, acks=acks, error=told))
