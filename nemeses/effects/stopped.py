"""An instance of a user's program is stopped in the midst of a transaction.

Such a program says nothing of what it does. What its transaction coordinator says is enough: the instance is stopped,
and then nobody but the coordinator can move its transaction on; if that is not where it is wanted, it goes on again.

PrepareCommit lasts milliseconds, and the coordinator itself moves on from there. So the instance is stopped while its
transaction is open, its markers are held back, and it goes on until the coordinator has written PrepareCommit.
"""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from harness.cluster import TransactionView
from harness.common.errors import WaitTimeout
from harness.common.waiting import wait_for
from harness.model.pipeline import CONSUMER_OFFSETS
from harness.runner.member import RunProcess
from harness.runner.nemesis import FaultContext
from nemeses.aiming.markers import hold_back_markers, other_leaders

ONGOING, OFFSETS_ADDED, PREPARE_COMMIT = "ongoing", "offsets-added", "prepare-commit"
CATCH_TIMEOUT_S = 45.0
PREPARE_TIMEOUT_S = 25.0
"""What is left to write waits until the brokers notice that the coordinator has stopped to follow them."""
PREPARES_S = 12.0
"""What that takes, mostly."""
TRIES = 4
"""At later transactions, where one aborts, or has written nothing whose marker could be held back."""

Met = Callable[[TransactionView | None], bool]


def stop_in(
    context: FaultContext,
    member: RunProcess,
    transactional_id: str,
    state: str,
    timeout_s: float | None = None,
) -> TransactionView:
    """Stop it while its transaction is open, or its offsets are in it as well. Raises `WaitTimeout`: it runs."""
    return wait_for(
        partial(
            _stopped, context, member, transactional_id, _offsets_added if state == OFFSETS_ADDED else _open
        ),
        f"{member.journal} to be in a transaction of {transactional_id} that is {state}",
        CATCH_TIMEOUT_S if timeout_s is None else timeout_s,
        every_s=0.002,
        last_seen=lambda: context.cluster.describe_transaction(transactional_id),
    )


def stop_prepared(
    context: FaultContext, member: RunProcess, transactional_id: str, cut: ExitStack
) -> TransactionView:
    """Stop it while its transaction is decided and lacks markers, which are held back until `cut` is closed.

    Raises `WaitTimeout`: it runs, and nothing is held back.
    """
    last: WaitTimeout | None = None
    for _ in range(TRIES):
        view = stop_in(context, member, transactional_id, ONGOING)
        with ExitStack() as stack:
            goes_on = stack.enter_context(ExitStack())
            goes_on.callback(member.child.resume)  # also where nobody answers
            coordinator = context.cluster.txn_coordinator(transactional_id)
            leaders = other_leaders(context, coordinator, view)
            if not leaders:
                words = f"broker {coordinator} leads all that it has written: {view}"
                last = WaitTimeout(
                    f"a transaction of {transactional_id} whose markers can be held back", 0, words
                )
                continue
            stack.enter_context(hold_back_markers(context, coordinator, leaders))
            goes_on.close()
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
    """Wait until it is stopped in PrepareCommit. Raises `WaitTimeout`, at once where it is to abort."""
    awaited = f"the transaction of {transactional_id} to be in PrepareCommit"
    seen: list[TransactionView | None] = [None]

    def prepared() -> TransactionView | None:
        seen[0] = context.cluster.describe_transaction(transactional_id)
        if seen[0] is not None and seen[0].state not in ("Ongoing", "PrepareCommit"):
            raise WaitTimeout(awaited, 0, seen[0])
        return _stopped(context, member, transactional_id, _decided) if _decided(seen[0]) else None

    return wait_for(prepared, awaited, PREPARE_TIMEOUT_S, every_s=0.02, last_seen=lambda: seen[0])


def _open(view: TransactionView | None) -> bool:
    return view is not None and view.state == "Ongoing"


def _offsets_added(view: TransactionView | None) -> bool:
    return view is not None and _open(view) and any(topic == CONSUMER_OFFSETS for topic, _ in view.partitions)


def _decided(view: TransactionView | None) -> bool:
    return view is not None and view.state == "PrepareCommit" and bool(view.partitions)


def _stopped(
    context: FaultContext, member: RunProcess, transactional_id: str, met: Met
) -> TransactionView | None:
    """Look once; the instance is stopped where what is looked for is given. Raises `WaitTimeout`: it has ended."""
    if not member.alive:
        raise WaitTimeout(f"{member.journal} to begin a transaction", 0, f"it ended: {member.last_output()}")
    if not met(context.cluster.describe_transaction(transactional_id)):
        return None
    member.child.pause()
    view, held = None, False
    try:
        view = context.cluster.describe_transaction(transactional_id)
        held = met(view)
    finally:  # also where nobody answers
        if not held:
            member.child.resume()
    return view if held else None
