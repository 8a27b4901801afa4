"""Exactly once: one transaction for each batch, with the outputs and the offsets of its inputs (KIP-98, KIP-447)."""

from functools import partial

from harness.clients.transactions import TransactionalProducer
from harness.history import Outcome, Step
from harness.record.events import Invoked
from harness.record.naming import operation_name
from workloads.delivery import Parcel, Post, commit_offsets
from workloads.model import Output
from workloads.plain import Plain


class Transactional:
    """A `Deliverer` by transactions. The policy makes it wrong on purpose."""

    def __init__(self, post: Post, transactional_id: str) -> None:
        self._post = post
        self._stranger = None if post.policy.member_metadata else post.client.stranger(post.consumer_settings)
        self._producer = TransactionalProducer(
            post.client, post.bootstrap, transactional_id, post.journal, post.control
        )
        self._plain = Plain(post) if post.policy.outside else None

    def open(self) -> None:
        """Initialise the transactional id, unless that is done."""
        self._producer.open(self._post.process)

    def deliver(self, parcel: Parcel) -> Outcome:
        """Send the outputs and the offsets in one transaction, and end it as asked."""
        post = self._post
        self.open()
        if not self._producer.usable:  # told to stop before there was one: nothing was done
            return Outcome.FAIL
        if post.policy.offsets == "before-transaction":
            commit_offsets(post, parcel.positions)
        if self._plain is not None:
            self._plain.send(parcel.only(self._outside))
            parcel = parcel.without(self._outside)
        op = post.journal.number()
        post.journal.write(
            Invoked(
                "txn",
                post.process,
                op,
                asked=parcel.asked,
                transactional_id=self._producer.transactional_id,
                sends=parcel.as_sends(),
                claims=parcel.claims,
            )
        )
        reach = partial(post.control.reach, asked=parcel.asked, claims=parcel.claims)
        with self._producer.transaction(op, post.process, len(parcel.planned)) as txn:
            parcel.hand_over(txn, post.journal, op)
            txn.flush()
            reach(Step.AFTER_SEND)
            if post.policy.offsets == "in-transaction":
                member = self._stranger or post.consumer
                metadata = operation_name(post.journal.name, op)
                txn.send_offsets(parcel.positions.to_commit(metadata), member.membership())
                reach(Step.AFTER_OFFSETS)
            if parcel.asked == "abort":
                txn.abort()
            else:
                reach(Step.BEFORE_COMMIT)
                txn.commit(
                    partial(reach, Step.WHILE_COMMITTING), post.control.is_armed(Step.WHILE_COMMITTING)
                )
        if txn.outcome is Outcome.OK:
            reach(Step.AFTER_COMMIT)
            if post.policy.offsets == "after-commit":
                commit_offsets(post, parcel.positions, op)
        post.fenced += txn.fenced
        return txn.outcome

    def _outside(self, output: Output) -> bool:
        return output.slot in self._post.policy.outside
