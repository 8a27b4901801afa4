"""at-most-once: commit the offsets, then send the outputs once, without a transaction.

If a worker dies between the two, the outputs of these inputs are lost. No input takes effect twice.
"""

from harness.model.expectation import Feed
from harness.model.vocabulary import Guarantee
from workloads.echo import repeat, word
from workloads.model.policy import Delivery
from workloads.model.workload import Workload, WorkloadStage

AT_MOST_ONCE = Workload(
    name="at-most-once",
    summary="words -> echoes, offsets committed before outputs, no retries",
    feed=(Feed("words", word),),
    stages=(WorkloadStage("at-most-once", ("words",), ("echoes",), repeat),),
    guarantee=Guarantee.AT_MOST_ONCE,
    delivery=Delivery.AT_MOST_ONCE,
    allowed=frozenset({"lost-input"}),
)
