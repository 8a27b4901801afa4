"""Faults that are one rule of the protocol proxy each: a row of `NEMESES`.

Requests of the kind that a fault names by default can be chosen with `NAME@API`, unless the fault is about one API. A
rule of the user's own (`--rule`) can do more: it names times, clients and fields.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from harness.protocol.rules import Action, ClientConnection, ProtocolRule, Release, Selector, When
from harness.runner.nemesis import Nemesis
from nemeses.effects.rules import protocol_fault

LATE_END_TXN_TIMES = 3
LATE_END_TXN_S = 10.0
"""How long late-end-txn is in force. On a busy machine, the next transaction sends its outputs only after seconds."""
COMPLETION_S = 1.0
"""The longest time from the end of a transaction until its markers are written."""
ENDED = Selector("EndTxn", "response")


def _rule(action: Action, message: str = "request", **fields: object) -> Callable[[str, str], ProtocolRule]:
    """Return a function that makes a rule without a name for an API, and for an error if the action has one."""

    def make(api: str, error: str) -> ProtocolRule:
        return ProtocolRule("", Selector(api, message), action, error=error, **fields)  # type: ignore[arg-type]

    return make


def _late_end_txn() -> Nemesis:
    """late-end-txn: hold the EndTxn of an aborted transaction until the producer's next transaction has its outputs.

    The request outlives its connection: the client's retry ends the transaction, and the next one begins. Then the old
    request arrives, and Kafka takes it for the end of the new transaction (KAFKA-17754). Its outputs are aborted, but
    its offsets are committed afterwards. Clients that use transaction.version 2 (KIP-890) are protected by a new epoch
    for each transaction. librdkafka is not.

    Transactions abort rarely, so the fault makes some abort: it answers a TxnOffsetCommit with ILLEGAL_GENERATION, as
    after a rebalance.
    """
    aborting = ProtocolRule(
        "abort-for-late-end-txn",
        Selector("TxnOffsetCommit"),
        Action.ERROR,
        times=LATE_END_TXN_TIMES,
        error="ILLEGAL_GENERATION",
    )
    # With transaction.version 2, the Java client sends no AddOffsetsToTxn.
    release = Release(after=(ENDED, Selector("AddOffsetsToTxn|TxnOffsetCommit")))

    def make(api: str, error: str) -> ProtocolRule:
        aborts = Selector(api, fields={"Committed": False})
        return ProtocolRule("", aborts, Action.HOLD, times=LATE_END_TXN_TIMES, release=release)

    fault = protocol_fault(
        "late-end-txn",
        (
            "deliver an EndTxn request after its transaction, while the next one is open (KAFKA-17754)",
            "arrived late",
        ),
        make,
        api="EndTxn",
        aimable=False,
        helpers=[aborting],
    )
    return replace(fault, hold_s=LATE_END_TXN_S)


def _late_produce() -> Nemesis:
    """late-produce: hold a producer's records until its transaction has ended without them.

    All Produce requests of the transactional id are held, retries included, until the client has given up and has ended
    the transaction. Then they arrive behind the marker. A broker that verifies transactions (KIP-890) refuses them.
    Without the verification they hang: no marker ever follows, and the last stable offset stands still (KAFKA-14402).
    """

    def make(api: str, error: str) -> ProtocolRule:
        return ProtocolRule(
            "",
            Selector(api, transactional_id="*"),
            Action.HOLD,
            times=None,
            release=Release(after=(ENDED,)),
            holds_retries=True,
            client=ClientConnection.STALL,
        )

    fault = protocol_fault(
        "late-produce",
        ("deliver records behind the marker of their transaction (KAFKA-14402)", "arrived late"),
        make,
        api="Produce",
        aimable=False,
    )
    return replace(fault, halts=True)


NEMESES: Sequence[Nemesis] = (
    _late_end_txn(),
    # The client's retry adds the partitions. If the producer is idle when the old request arrives, the request begins
    # a transaction that no client ends. The coordinator aborts it after its time-out and raises the epoch of the
    # producer, so the producer is fenced though it has no rival. A request that arrived earlier would be refused: until
    # the markers are written, the coordinator answers CONCURRENT_TRANSACTIONS. The Java client sends no such request
    # with transaction.version 2.
    protocol_fault(
        "late-add-partitions",
        ("deliver an AddPartitionsToTxn request after its transaction", "arrived late"),
        _rule(Action.HOLD, times=3, release=Release(after=(ENDED,), after_s=COMPLETION_S)),
        api="AddPartitionsToTxn",
        aimable=False,
    ),
    # The client's retry commits the offsets in the first transaction. The old request arrives just before the next
    # transaction ends, behind its newer offsets, and so the group goes back. Clients that use transaction.version 2
    # (KIP-890) are protected by a new epoch for each transaction.
    protocol_fault(
        "late-offset-commit",
        (
            "deliver a TxnOffsetCommit request in the next transaction, behind its newer offsets",
            "arrived late",
        ),
        _rule(
            Action.HOLD,
            times=3,
            release=Release(after=(ENDED, Selector("TxnOffsetCommit", "response"), Selector("EndTxn"))),
        ),
        api="TxnOffsetCommit",
        aimable=False,
    ),
    _late_produce(),
    # The retry writes the markers, and the producer goes on. The old request arrives while the next transaction may
    # have records in the same partition. Kafka must not end that transaction.
    protocol_fault(
        "late-marker",
        ("deliver a WriteTxnMarkers request of a coordinator a second late, after its retry", "arrived late"),
        _rule(Action.HOLD, times=5, release=Release(after_s=1.0)),
        api="WriteTxnMarkers",
        aimable=False,
        kind="peer:",
    ),
    # The request was carried out, and its client cannot know. Its connection is closed, so it retries at once.
    protocol_fault(
        "lost-response",
        ("drop the response to a request that was carried out; EndTxn, or @API", "were lost"),
        _rule(Action.DROP, "response", times=5),
        api="EndTxn",
    ),
    # As after a retry whose first copy was only delayed. The response to the copy is dropped.
    protocol_fault(
        "duplicate-request",
        ("deliver a request twice; EndTxn, or @API", "were delivered twice"),
        _rule(Action.DUPLICATE, times=5, release=Release(after_s=0.0)),
        api="EndTxn",
    ),
    # A request waits until the next of its kind has passed. The two may be on different connections.
    protocol_fault(
        "swap-requests",
        ("let two requests of one kind change places; Produce, or @API", "changed places"),
        _rule(Action.SWAP, times=10, release=Release(after_s=2.0)),
        api="Produce",
    ),
    # A rule of your own can also answer with an error after the request was carried out (`--rule ...,when=after`).
    protocol_fault(
        "error-response",
        (
            "answer a request with an error instead of delivering it; @API:ERROR",
            "were answered with an error",
        ),
        _rule(Action.ERROR, times=5),
        api="EndTxn",
        error="COORDINATOR_LOAD_IN_PROGRESS",
    ),
    # The request is carried out, and the client must find out on a new connection.
    protocol_fault(
        "disconnect",
        (
            "close a client's connection after its request was delivered; EndTxn, or @API",
            "lost their connection",
        ),
        _rule(Action.CLOSE, times=5, when=When.AFTER),
        api="EndTxn",
    ),
    protocol_fault(
        "slow-response",
        ("delay a broker's responses by a second; EndTxn, or @API", "were delayed"),
        _rule(Action.DELAY, "response", times=None, release=Release(after_s=1.0)),
        api="EndTxn",
    ),
)
