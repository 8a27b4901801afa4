"""Facts about Kafka's protocol: error codes, requests that are never sent, and the meaning of versions.

A protocol rule on a request that its sender never sends is refused before the run. A sender is the client of a
workload, or a broker. If a new client leaves out a request that other clients send, add a row to `_LEFT_OUT`. Nothing
is known about a user's own program, so nothing is refused for it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harness.common.documents import read_toml

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


@cache
def error_codes() -> Mapping[str, int]:
    """Return all error codes by Kafka's name: `NOT_COORDINATOR`."""
    return read_toml(Path(__file__).with_name("error-codes.toml"))


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


@dataclass(frozen=True)
class VersionedMeaning:
    """The meaning of a request from one version on, and before that version. An empty text: it has no meaning."""

    request: str
    version: int
    since: str  # from `version` on
    before: str  # below `version`


MEANINGS: Sequence[VersionedMeaning] = (
    VersionedMeaning(
        "EndTxn",
        5,
        "each transaction has its own epoch (transaction version 2, KIP-890): a late EndTxn is refused",
        "transaction version 2 does not protect this client: a late EndTxn can decide its next transaction "
        "(KAFKA-17754)",
    ),
    VersionedMeaning(
        "AddPartitionsToTxn",
        0,
        "the client adds partitions to its transaction itself; under transaction version 2 the first Produce does "
        "(KIP-890)",
        "",
    ),
    VersionedMeaning(
        "AddOffsetsToTxn",
        0,
        "the client adds the group's offsets to its transaction itself; under transaction version 2 TxnOffsetCommit "
        "does (KIP-890)",
        "",
    ),
    VersionedMeaning(
        "Produce",
        12,
        "the first one adds its partition to the transaction (KIP-890)",
        "the partition must have been added before; the leader asks the coordinator whether it was (KIP-890)",
    ),
    VersionedMeaning(
        "TxnOffsetCommit",
        5,
        "it can carry the member and its generation, by which the group fences a zombie (KIP-447), and adds the "
        "group's offsets to the transaction (KIP-890)",
        "it can carry the member and its generation from version 3 on, by which the group fences a zombie (KIP-447)",
    ),
    VersionedMeaning(
        "InitProducerId",
        3,
        "the producer can go on with a new epoch after an error (KIP-360)",
        "after an error that concerns its epoch the producer must be closed",
    ),
    VersionedMeaning(
        "OffsetFetch",
        7,
        "it can wait for the offsets of an open transaction (KIP-447)",
        "a new member may begin at an old offset while an open transaction has a newer one (KIP-447)",
    ),
    VersionedMeaning(
        "JoinGroup",
        5,
        "the classic group protocol; a member may be static (KIP-345)",
        "the classic group protocol, without static members",
    ),
    VersionedMeaning(
        "ConsumerGroupHeartbeat",
        0,
        "the consumer group protocol: the brokers assign partitions (KIP-848)",
        "",
    ),
)


def rows(requests: Mapping[str, Sequence[int]]) -> Iterator[tuple[str, str, str]]:
    """Yield request, versions and meaning: first the requests with a meaning, then the others."""
    for meaning in MEANINGS:
        for version in requests.get(meaning.request, ()):
            words = meaning.since if version >= meaning.version else meaning.before
            yield meaning.request, f"v{version}", words
    known = {meaning.request for meaning in MEANINGS}
    for name, versions in requests.items():
        if name not in known:
            yield name, ", ".join(f"v{version}" for version in versions), ""
