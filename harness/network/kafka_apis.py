"""The versions of Kafka's APIs that clients may use through the address proxy.

They are the versions of Kafka 4.3.1 (the schemas in `org/apache/kafka/common/message`). The responses of a newer
version or API may have addresses at unknown places, so the proxy does not offer it to clients.
"""

from collections.abc import Mapping

PRODUCE, FETCH, METADATA, FIND_COORDINATOR, API_VERSIONS, DESCRIBE_CLUSTER = 0, 1, 3, 10, 18, 60

HIDDEN_APIS: Mapping[int, str] = {
    4: "LeaderAndIsr",  # between brokers, until 3.9
    5: "StopReplica",
    6: "UpdateMetadata",
    7: "ControlledShutdown",
    52: "Vote",  # between controllers; responses have their addresses
    53: "BeginQuorumEpoch",
    54: "EndQuorumEpoch",
    59: "FetchSnapshot",
    78: "ShareFetch",  # addresses in every response (KIP-932); no client of a run is in a share group
    79: "ShareAcknowledge",
    82: "UpdateRaftVoter",
}
"""APIs that the proxy does not offer. No client of a run needs them, and their responses are not changed."""

UNCHANGED_APIS: Mapping[int, str] = {
    88: "StreamsGroupHeartbeat",
    89: "StreamsGroupDescribe",
}
"""APIs whose responses have addresses of applications (KIP-1071), but none of a broker."""

DESCRIBE_QUORUM = 55
_NEWEST = (
    *(13, 18, 11, 13, 0, 0, 0, 0, 10, 10),
    *(6, 9, 4, 5, 5, 6, 5, 1, 4, 7),
    *(6, 2, 6, 4, 5, 4, 5, 2, 5, 3),
    *(3, 3, 4, 2, 2, 5, 2, 3, 3, 2),
    *(2, 3, 2, 2, 1, 1, 0, 0, 1, 1),
    *(0, 0, 0, 0, 0, 1, 3, 2, 0, 0),  # DescribeQuorum 2 has the controllers' addresses
    *(2, 0, 4, 2, 0, 0, 2, 0, 1, 1),
    *(0, 0, 0, 0, 1, 0, 1, 1, 0, 0),
    *(1, 0, 0, 0, 0, 1, 0, 1, 0, 0),
    *(1, 0, 0),
)
"""The newest version of each API, by its key."""


def newest_version(key: int) -> int | None:
    """Return the newest version of an API that clients may use. None if the API is not offered."""
    return None if key in HIDDEN_APIS or not 0 <= key < len(_NEWEST) else _NEWEST[key]
