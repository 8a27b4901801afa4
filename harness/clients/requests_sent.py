"""Which requests a sender never sends. A protocol rule on such a request is refused before the run.

A sender is the client of a workload, or a broker. If a new client leaves out a request that other clients send, add a
row to `_LEFT_OUT`. Nothing is known about a user's own program, so nothing is refused for it.
"""

from collections.abc import Callable
from dataclasses import dataclass

TRANSACTIONS = frozenset({"AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"})
CLASSIC = frozenset({"JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup"})
CONSUMER = frozenset({"ConsumerGroupHeartbeat"})
GROUPS = CLASSIC | CONSUMER | {"OffsetCommit", "OffsetFetch"}
_ONLY_OF_CLIENTS = (TRANSACTIONS - {"AddPartitionsToTxn"}) | GROUPS | {"Produce", "InitProducerId"}
"""The leader of a partition sends AddPartitionsToTxn to a coordinator, to verify a transaction (KIP-890)."""
_OF_CLIENTS = (
    _ONLY_OF_CLIENTS
    | {"AddPartitionsToTxn", "ApiVersions", "Metadata", "FindCoordinator"}
    | {"Fetch", "ListOffsets", "OffsetForLeaderEpoch"}
    | {"GetTelemetrySubscriptions", "PushTelemetry", "SaslHandshake", "SaslAuthenticate"}
)
"""All requests that producers and consumers send."""
_BETWEEN_BROKERS = frozenset({"WriteTxnMarkers"})
SENT_IN_RUNS = _OF_CLIENTS | _BETWEEN_BROKERS
"""The requests on which a rule can act."""
_OF_OTHERS = frozenset(
    [
        "AddRaftVoter",
        "AllocateProducerIds",
        "AlterClientQuotas",
        "AlterConfigs",
        "AlterPartition",
        "AlterPartitionReassignments",
        "AlterReplicaLogDirs",
        "AlterShareGroupOffsets",
        "AlterUserScramCredentials",
        "AssignReplicasToDirs",
        "BeginQuorumEpoch",
        "BrokerHeartbeat",
        "BrokerRegistration",
        "ConsumerGroupDescribe",
        "ControlledShutdown",
        "ControllerRegistration",
        "CreateAcls",
        "CreateDelegationToken",
        "CreatePartitions",
        "CreateTopics",
        "DeleteAcls",
        "DeleteGroups",
        "DeleteRecords",
        "DeleteShareGroupOffsets",
        "DeleteShareGroupState",
        "DeleteTopics",
        "DescribeAcls",
        "DescribeClientQuotas",
        "DescribeCluster",
        "DescribeConfigs",
        "DescribeDelegationToken",
        "DescribeGroups",
        "DescribeLogDirs",
        "DescribeProducers",
        "DescribeQuorum",
        "DescribeShareGroupOffsets",
        "DescribeTopicPartitions",
        "DescribeTransactions",
        "DescribeUserScramCredentials",
        "ElectLeaders",
        "EndQuorumEpoch",
        "Envelope",
        "ExpireDelegationToken",
        "FetchSnapshot",
        "IncrementalAlterConfigs",
        "InitializeShareGroupState",
        "LeaderAndIsr",
        "ListClientMetricsResources",
        "ListConfigResources",
        "ListGroups",
        "ListPartitionReassignments",
        "ListTransactions",
        "OffsetDelete",
        "ReadShareGroupState",
        "ReadShareGroupStateSummary",
        "RemoveRaftVoter",
        "RenewDelegationToken",
        "ShareAcknowledge",
        "ShareFetch",
        "ShareGroupDescribe",
        "ShareGroupHeartbeat",
        "StopReplica",
        "StreamsGroupDescribe",
        "StreamsGroupHeartbeat",
        "StreamsGroupTopologyDescriptionUpdate",
        "UnregisterBroker",
        "UnregisterController",
        "UpdateFeatures",
        "UpdateMetadata",
        "UpdateRaftVoter",
        "Vote",
        "WriteShareGroupState",
    ]
)
"""The requests of brokers, controllers, administrators, and share and streams groups, which no workload has."""
APIS = SENT_IN_RUNS | _OF_OTHERS
"""All APIs of all pinned versions of Kafka. A test compares them with Kafka's own schemas."""


@dataclass(frozen=True)
class Sender:
    """The sender of the requests on a link, as far as it is known before the run."""

    client: str  # librdkafka, java; of a broker: broker
    transaction_version: int | None = None  # of the cluster; None: not known
    client_transaction_version: int = 0  # the highest that the client supports (KIP-890)
    group_protocol: str = "classic"
    transactional: bool = True  # the pipeline has transactions
    in_group: bool = True  # the pipeline has consumer groups


BROKER = "broker"


@dataclass(frozen=True)
class _LeftOut:
    """Requests that a sender leaves out."""

    apis: frozenset[str]
    by: Callable[[Sender], bool]
    because: str  # with {api}
    instead: str


_LEFT_OUT = (
    _LeftOut(
        frozenset({"AddPartitionsToTxn", "AddOffsetsToTxn"}),
        lambda sender: (
            sender.client == "java"
            and sender.transaction_version == 2
            and sender.client_transaction_version >= 2
        ),
        "under transaction version 2 the Java client sends no {api} (KIP-890)",
        "choose --client librdkafka, or --set transaction-version=1",
    ),
    _LeftOut(
        CLASSIC,
        lambda sender: sender.group_protocol == "consumer",
        "in the consumer group protocol a client sends no {api} (KIP-848)",
        "choose --group-protocol classic, or the API ConsumerGroupHeartbeat",
    ),
    _LeftOut(
        CONSUMER,
        lambda sender: sender.group_protocol == "classic",
        "in the classic group protocol a client sends no {api}",
        "choose --group-protocol consumer, or the API Heartbeat",
    ),
    _LeftOut(
        TRANSACTIONS,
        lambda sender: not sender.transactional,
        "a client without a transactional id sends no {api}",
        "choose a --workload with transactions, or another API",
    ),
    _LeftOut(
        GROUPS,
        lambda sender: not sender.in_group,
        "a client without a group sends no {api}",
        "choose a --workload with consumer groups, or another API",
    ),
)


def why_never_sent(api: str, sender: Sender) -> str:
    """Return why a sender never sends a request, and what to choose instead. "" if it may send it."""
    if sender.client == BROKER:
        if api in _ONLY_OF_CLIENTS:
            return f"a broker sends no {api} to other brokers: leave out links=peer, or choose another API"
        return ""
    if api in _BETWEEN_BROKERS:
        return f"only brokers send {api}, and no client does: choose a --rule with links=peer"
    if api not in _OF_CLIENTS:
        return f"the producers and consumers of a workload send no {api}: choose another API"
    for row in _LEFT_OUT:
        if api in row.apis and row.by(sender):
            return f"{row.because.format(api=api)}: {row.instead}"
    return ""
