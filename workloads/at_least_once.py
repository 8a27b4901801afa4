"""at-least-once and idempotent: send the outputs, then commit the offsets, without a transaction.

If a worker dies between the two, its outputs exist and its inputs are consumed again. `idempotent` differs only in its
producer: a retry in the same producer session writes no second record (KIP-98). Idempotence promises nothing more.
"""

from harness.model.expectation import Feed
from harness.model.vocabulary import Guarantee
from workloads.echo import repeat, word
from workloads.model.policy import Delivery
from workloads.model.workload import Workload, WorkloadStage

IDEMPOTENT = Workload(
    name="idempotent",
    summary="words -> echoes, by an idempotent producer, without transactions",
    feed=(Feed("words", word),),
    stages=(WorkloadStage("idempotent", ("words",), ("echoes",), repeat),),
    guarantee=Guarantee.AT_LEAST_ONCE,
    delivery=Delivery.IDEMPOTENT,
    allowed=frozenset({"reprocessed-input"}),
)
AT_LEAST_ONCE = Workload(
    name="at-least-once",
    summary="words -> echoes, by a producer that retries without idempotence, without transactions",
    feed=(Feed("words", word),),
    stages=(WorkloadStage("at-least-once", ("words",), ("echoes",), repeat),),
    guarantee=Guarantee.AT_LEAST_ONCE,
    delivery=Delivery.AT_LEAST_ONCE,
    # A retry can write a second record of one attempt, and this record can follow records that were sent later.
    allowed=frozenset({"reprocessed-input", "duplicate", "nonmonotonic-send", "int-nonmonotonic-send"}),
)
