"""The meaning of request versions: the version of a request shows what its client can do."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass


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
        "it has the member and its generation, so that the group fences a zombie (KIP-447), and adds the group's "
        "offsets to the transaction (KIP-890)",
        "it has the member and its generation from version 3 on, so that the group fences a zombie (KIP-447)",
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
