"""Faults that are one rule of the protocol proxy each: a row of `FAULTS`. `RULE` is a rule of the user's own.

Requests of the kind that a fault names by default can be chosen with `NAME@API`, unless the fault is about one API. A
rule of the user's own (`--rule`) can do more: it names times, clients and fields.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random

from harness.network import ApplyRule
from harness.protocol.rule_options import rule_of
from harness.protocol.rules import Action, ClientConnection, ProtocolRule, Release, Selector, When
from harness.runner.nemesis import (
    DrawnFault,
    FaultContext,
    FaultTargets,
    InjectedFault,
    Nemesis,
    NotForThisPipeline,
    PlannedFault,
)
from nemeses.effects.rules import LINKS, PROVES, ProtocolFault, rule_in_force

LATE_END_TXN_TIMES = 3
LATE_END_TXN_S = 10.0
"""How long late-end-txn is in force. On a busy machine, the next transaction sends its outputs only after seconds."""
COMPLETION_S = 1.0
"""The longest time from the end of a transaction until its markers are written."""
ENDED = Selector("EndTxn", "response")


def _draw_no_rule(rng: Random, targets: FaultTargets) -> DrawnFault:
    """Raise `NotForThisPipeline`, because a rule is written and never drawn."""
    raise NotForThisPipeline("a rule: write it with --rule")


@contextmanager
def own_rule(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    """Put a rule of the user's own in force. The proof says on which message it had its effect, and the answer."""
    spec = rule_of(planned.parameters)
    with rule_in_force(context, spec.rule, LINKS[spec.links]) as effect:
        yield effect


FAULTS: Sequence[ProtocolFault] = (
    # The EndTxn of an aborted transaction is held until the producer's next transaction has its outputs. The request
    # outlives its connection: the client's retry ends the transaction, and the next one begins. Then the old request
    # arrives, and Kafka takes it for the end of the new transaction. Its outputs are aborted, but its offsets are
    # committed afterwards. Clients that use transaction.version 2 are protected by a new epoch for each transaction.
    # librdkafka is not. With transaction.version 2, the Java client sends no AddOffsetsToTxn.
    #
    # Transactions abort rarely, so the fault makes some abort: it answers a TxnOffsetCommit with ILLEGAL_GENERATION, as
    # after a rebalance.
    ProtocolFault(
        rule=ProtocolRule(
            "late-end-txn",
            Selector("EndTxn", fields={"Committed": False}),
            Action.HOLD,
            times=LATE_END_TXN_TIMES,
            release=Release(after=(ENDED, Selector("AddOffsetsToTxn|TxnOffsetCommit"))),
        ),
        summary="deliver an EndTxn request after its transaction, while the next one is open (KAFKA-17754)",
        past_tense="arrived late",
        api_aim=(),
        helpers=[
            ProtocolRule(
                "abort-for-late-end-txn",
                Selector("TxnOffsetCommit"),
                Action.ERROR,
                times=LATE_END_TXN_TIMES,
                error="ILLEGAL_GENERATION",
            )
        ],
        hold_s=LATE_END_TXN_S,
        sources=("KAFKA-17754", "KIP-890"),
    ),
    # The client's retry adds the partitions. If the producer is idle when the old request arrives, the request begins
    # a transaction that no client ends. The coordinator aborts it after its time-out and raises the epoch of the
    # producer, so the producer is fenced though it has no rival. A request that arrived earlier would be refused: until
    # the markers are written, the coordinator answers CONCURRENT_TRANSACTIONS. The Java client sends no such request
    # with transaction.version 2.
    ProtocolFault(
        rule=ProtocolRule(
            "late-add-partitions",
            Selector("AddPartitionsToTxn"),
            Action.HOLD,
            times=3,
            release=Release(after=(ENDED,), after_s=COMPLETION_S),
        ),
        summary="deliver an AddPartitionsToTxn request after its transaction",
        past_tense="arrived late",
        api_aim=(),
    ),
    # The client's retry commits the offsets in the first transaction. The old request arrives just before the next
    # transaction ends, behind its newer offsets, and so the group goes back. Clients that use transaction.version 2
    # are protected by a new epoch for each transaction.
    ProtocolFault(
        rule=ProtocolRule(
            "late-offset-commit",
            Selector("TxnOffsetCommit"),
            Action.HOLD,
            times=3,
            release=Release(after=(ENDED, Selector("TxnOffsetCommit", "response"), Selector("EndTxn"))),
        ),
        summary="deliver a TxnOffsetCommit request in the next transaction, behind its newer offsets",
        past_tense="arrived late",
        api_aim=(),
        sources=("KIP-890",),
    ),
    # All Produce requests of the transactional id are held, retries included, until the client has given up and has
    # ended the transaction. Then they arrive behind the marker. A broker that verifies transactions (KIP-890) refuses
    # them. Without the verification they hang: no marker ever follows, and the last stable offset stays where it is.
    ProtocolFault(
        rule=ProtocolRule(
            "late-produce",
            Selector("Produce", transactional_id="*"),
            Action.HOLD,
            times=None,
            release=Release(after=(ENDED,)),
            holds_retries=True,
            client=ClientConnection.STALL,
        ),
        summary="deliver records behind the marker of their transaction (KAFKA-14402)",
        past_tense="arrived late",
        api_aim=(),
        halts=True,
        sources=("KAFKA-14402", "KIP-890"),
    ),
    # The retry writes the markers, and the producer goes on. The old request arrives while the next transaction may
    # have records in the same partition. Kafka must not end that transaction.
    ProtocolFault(
        rule=ProtocolRule(
            "late-marker",
            Selector("WriteTxnMarkers"),
            Action.HOLD,
            times=5,
            release=Release(after_s=1.0),
        ),
        summary="deliver a WriteTxnMarkers request of a coordinator a second late, after its retry",
        past_tense="arrived late",
        api_aim=(),
        links="peer",
    ),
    # The request was carried out, and its client cannot know. Its connection is closed, so it retries at once.
    ProtocolFault(
        rule=ProtocolRule("lost-response", Selector("EndTxn", "response"), Action.DROP, times=5),
        summary="drop the response to a request that was carried out; EndTxn, or @API",
        past_tense="were lost",
    ),
    # As after a retry whose first copy was only delayed. The response to the copy is dropped.
    ProtocolFault(
        rule=ProtocolRule(
            "duplicate-request", Selector("EndTxn"), Action.DUPLICATE, times=5, release=Release(after_s=0.0)
        ),
        summary="deliver a request twice; EndTxn, or @API",
        past_tense="were delivered twice",
    ),
    # A request waits until the next of its kind has passed. The two may be on different connections.
    ProtocolFault(
        rule=ProtocolRule(
            "swap-requests", Selector("Produce"), Action.SWAP, times=10, release=Release(after_s=2.0)
        ),
        summary="let two requests of one kind change places; Produce, or @API",
        past_tense="changed places",
    ),
    # A rule of your own can also answer with an error after the request was carried out (`--rule ...,when=after`).
    ProtocolFault(
        rule=ProtocolRule(
            "error-response",
            Selector("EndTxn"),
            Action.ERROR,
            times=5,
            error="COORDINATOR_LOAD_IN_PROGRESS",
        ),
        summary="answer a request with an error instead of delivering it; @API:ERROR",
        past_tense="were answered with an error",
        api_aim=("api", "error"),
    ),
    # The request is carried out, and the client must find out on a new connection.
    ProtocolFault(
        rule=ProtocolRule("disconnect", Selector("EndTxn"), Action.CLOSE, times=5, when=When.AFTER),
        summary="close a client's connection after its request was delivered; EndTxn, or @API",
        past_tense="lost their connection",
    ),
    ProtocolFault(
        rule=ProtocolRule(
            "slow-response",
            Selector("EndTxn", "response"),
            Action.DELAY,
            times=None,
            release=Release(after_s=1.0),
        ),
        summary="delay a broker's responses by a second; EndTxn, or @API",
        past_tense="were delayed",
    ),
)
# The rule is in force from its `start_s` for its `hold_s`. It may overlap other faults.
RULE = Nemesis(
    name="rule",
    summary="apply a rule of your own to Kafka's messages: --rule",
    past_tense="were changed by a rule of --rule",
    proves=PROVES,
    needs=frozenset({ApplyRule}),
    occupies=lambda planned: frozenset(),
    hold_s=10.0,
    recovery_s=0.0,
    draw=_draw_no_rule,
    inject=own_rule,
    halts=True,
    by_default=False,
    links="client",
)
NEMESES = (*(fault.nemesis() for fault in FAULTS), RULE)
