"""at-most-once: the offsets first, then outputs that are tried once, without a transaction.

Whoever dies between the two has lost what it had taken; nothing is ever done twice.
"""

from harness.model.expectation import Feed
from harness.model.vocabulary import Guarantee
from workloads.echo import repeat, word
from workloads.model.policy import Delivery
from workloads.model.workload import Workload, WorkloadStage

AT_MOST_ONCE = Workload(
    name="at-most-once",
    summary="words -> echoes, offsets before outputs, nothing sent again",
    feed=(Feed("words", word),),
    stages=(WorkloadStage("at-most-once", ("words",), ("echoes",), repeat),),
    guarantee=Guarantee.AT_MOST_ONCE,
    delivery=Delivery.AT_MOST_ONCE,
    allowed=frozenset({"lost-input"}),
)
