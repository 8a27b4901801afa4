"""txn: random transactions that send to many keys and poll them, to look for cycles, as Jepsen's Kafka workload does.

No input leads to an output here. The checkers order the transactions by the records that they read of each other. A
key is a partition. Workers send to it until its log is long. Then another key replaces it. At the
end of the run, workers read every key to its end.

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
    partition_factor=6,
)
