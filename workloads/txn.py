"""txn: random transactions that send to many keys and poll them, to look for cycles, as Jepsen's Kafka workload does.

No input leads to an output here. Checks order the transactions by the records that each of them read of the others. A
key is a partition. It takes sends until its log is long; then another key replaces it. Readers continue until they
have read the replaced keys to their ends.

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
