"""at-least-once and idempotent: outputs first, then the offsets, without a transaction.

Whoever dies between the two leaves outputs whose inputs are taken again. The idempotent one differs in its producer
alone: a retry within it makes no second record (KIP-98), and that is all that idempotence promises.
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
    summary="words -> echoes, by a producer that repeats what was not answered, without transactions",
    feed=(Feed("words", word),),
    stages=(WorkloadStage("at-least-once", ("words",), ("echoes",), repeat),),
    guarantee=Guarantee.AT_LEAST_ONCE,
    delivery=Delivery.AT_LEAST_ONCE,
    # A retry makes a second record of one attempt, and may overtake what was sent after the first.
    allowed=frozenset({"reprocessed-input", "duplicate", "nonmonotonic-send", "int-nonmonotonic-send"}),
)
