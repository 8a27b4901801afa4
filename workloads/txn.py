"""txn: random transactions that send to many keys and poll them, to look for cycles, as Jepsen's Kafka workload does.

No input leads to an output here. Every record is sent for its own sake, and what a transaction was given of others'
is what orders it among them. A key is a partition: it takes sends until its log is long, and retires; another
one takes its place, and readers go on until they have read the retired ones to their ends.

Reference: `jepsen.tests.kafka`, with transactions and `assign`.
"""

from workloads.model.policy import Delivery
from workloads.model.workload import Workload, WorkloadStage

TOPICS = ("keys-a", "keys-b")

TXN = Workload(
    name="txn",
    summary="random sends to the partitions of keys-a and keys-b, and polls of them, in transactions",
    feed=(),
    stages=(WorkloadStage("txn", TOPICS, TOPICS, lambda record: ()),),
    delivery=Delivery.MIXED,
    spread=6,
)
