"""Stop an instance of a custom pipeline inside a transaction.

A custom pipeline keeps no journal, so the state of its transaction is read from the transaction coordinator. First the
instance is stopped. Then only the coordinator can change the state. If the transaction is not in the wanted state,
the instance is resumed, and the fault tries again.

PrepareCommit lasts only milliseconds, because the coordinator ends it by itself. For this state, the instance is
stopped while its transaction is open, and the markers are held back. Then it is resumed until the coordinator has
written PrepareCommit.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial

from harness.cluster import TransactionView
from harness.common.errors import WaitTimeout
from harness.model.pipeline import CONSUMER_OFFSETS
from harness.runner.nemesis import FaultContext
from harness.runner.run_process import RunProcess
from nemeses.aiming.in_transaction import hold_back_markers, other_leaders

ONGOING, BEFORE_OFFSETS, OFFSETS_ADDED = "ongoing", "before-offsets", "offsets-added"
PREPARE_COMMIT = "prepare-commit"
CATCH_TIMEOUT_S = 45.0
PREPARE_TIMEOUT_S = 25.0
"""Longer than `replica.lag.time.max.ms`: the last writes of the instance are acknowledged only after the brokers have
noticed that the coordinator does not fetch from them.
"""
PREPARES_S = 12.0
"""How long the brokers usually need for that."""
TRIES = 4
"""How many transactions to try. A transaction may abort, or have no partition whose marker can be held back."""

Condition = Callable[[TransactionView | None], bool]


def stop_in(
    context: FaultContext,
    member: RunProcess,
    transactional_id: str,
    state: str,
    timeout_s: float | None = None,
) -> TransactionView:
    """Stop the instance while its transaction is in the state `ongoing`, `before-offsets` or `offsets-added`.

    Raises `WaitTimeout`; then the instance runs.
    """
    return context.wait_for(
        partial(_stop_if, context, member, transactional_id, _CONDITIONS[state]),
        f"{member.journal} to be in a transaction of {transactional_id} that is {state}",
        CATCH_TIMEOUT_S if timeout_s is None else timeout_s,
        every_s=0.002,
        last_seen=lambda: context.cluster.describe_transaction(transactional_id),
    )


def stop_prepared(
    context: FaultContext, member: RunProcess, transactional_id: str, cut: ExitStack
) -> TransactionView:
    """Stop the instance while its transaction is in PrepareCommit. Its markers are held back until `cut` is closed.

    Raises `WaitTimeout`; then the instance runs, and no marker is held back.
    """
    last: WaitTimeout | None = None
    for _ in range(TRIES):
        view = stop_in(context, member, transactional_id, ONGOING)
        with ExitStack() as stack:
            stopped = stack.enter_context(ExitStack())
            stopped.callback(member.child.resume)  # also if a broker does not answer
            coordinator = context.cluster.txn_coordinator(transactional_id)
            leaders = other_leaders(context, coordinator, view)
            if not leaders:
                only_leader = f"broker {coordinator} leads every partition that it has written: {view}"
                last = WaitTimeout(
                    f"a transaction of {transactional_id} whose markers can be held back", 0, only_leader
                )
                continue
            stack.enter_context(hold_back_markers(context, coordinator, leaders))
            stopped.close()  # resumes the instance
            try:
                prepared = _await_prepared(context, member, transactional_id)
            except WaitTimeout as error:
                last = error
                continue
            cut.push(stack.pop_all())
            return prepared
    assert last is not None
    raise last


def _await_prepared(context: FaultContext, member: RunProcess, transactional_id: str) -> TransactionView:
    """Wait until the instance is stopped in PrepareCommit. Raises `WaitTimeout`, at once if the transaction aborts."""
    awaited = f"the transaction of {transactional_id} to be in PrepareCommit"
    view: TransactionView | None = None

    def prepared() -> TransactionView | None:
        nonlocal view
        view = context.cluster.describe_transaction(transactional_id)
        if view is not None and view.state not in ("Ongoing", "PrepareCommit"):
            raise WaitTimeout(awaited, 0, view)
        return _stop_if(context, member, transactional_id, _decided) if _decided(view) else None

    return context.wait_for(prepared, awaited, PREPARE_TIMEOUT_S, every_s=0.02, last_seen=lambda: view)


def _open(view: TransactionView | None) -> bool:
    return view is not None and view.state == "Ongoing"


def _offsets_added(view: TransactionView | None) -> bool:
    return view is not None and _open(view) and any(topic == CONSUMER_OFFSETS for topic, _ in view.partitions)


def _before_offsets(view: TransactionView | None) -> bool:
    return _open(view) and not _offsets_added(view)


def _decided(view: TransactionView | None) -> bool:
    return view is not None and view.state == "PrepareCommit" and bool(view.partitions)


_CONDITIONS: Mapping[str, Condition] = {
    ONGOING: _open,
    BEFORE_OFFSETS: _before_offsets,
    OFFSETS_ADDED: _offsets_added,
}
"""By state: what the coordinator must say about the transaction."""


def _stop_if(
    context: FaultContext, member: RunProcess, transactional_id: str, is_met: Condition
) -> TransactionView | None:
    """Stop the instance if its transaction meets the condition. None: the condition is not met; the instance runs.

    Raises `WaitTimeout` if the instance has ended.
    """
    if not member.alive:
        raise WaitTimeout(f"{member.journal} to begin a transaction", 0, f"it ended: {member.last_output()}")
    if not is_met(context.cluster.describe_transaction(transactional_id)):
        return None
    member.child.pause()
    view, stays_stopped = None, False
    try:
        view = context.cluster.describe_transaction(transactional_id)
        stays_stopped = is_met(view)
    finally:  # also if a broker does not answer
        if not stays_stopped:
            member.child.resume()
    return view if stays_stopped else None
