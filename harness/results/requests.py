"""What the version of a request says of the client that sent it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class VersionedMeaning:
    """From one version on a request means one thing, and before it another; either may be empty."""

    request: str
    version: int
    since: str
    before: str


MEANINGS: Sequence[VersionedMeaning] = (
    VersionedMeaning(
        "EndTxn",
        5,
        "each transaction has an epoch of its own (transaction version 2, KIP-890): a late EndTxn is refused",
        "transaction version 2 does not protect this client: a late EndTxn can decide its next transaction "
        "(KAFKA-17754)",
    ),
    VersionedMeaning(
        "AddPartitionsToTxn",
        0,
        "the client enrols partitions by itself; under transaction version 2 the first Produce does (KIP-890)",
        "",
    ),
    VersionedMeaning(
        "AddOffsetsToTxn",
        0,
        "the client enrols the group's offsets by itself; under transaction version 2 TxnOffsetCommit does (KIP-890)",
        "",
    ),
    VersionedMeaning(
        "Produce",
        12,
        "the first one enrols its partition in the transaction (KIP-890)",
        "the partition must have been enrolled; the leader asks the coordinator whether it was (KIP-890)",
    ),
    VersionedMeaning(
        "TxnOffsetCommit",
        5,
        "it bears the member and its generation, so that the group fences a zombie (KIP-447), and enrols the group's "
        "offsets (KIP-890)",
        "it bears the member and its generation from version 3 on, so that the group fences a zombie (KIP-447)",
    ),
    VersionedMeaning(
        "InitProducerId",
        3,
        "the producer can go on with a new epoch after an error (KIP-360)",
        "after an error that concerns its epoch the producer must be given up",
    ),
    VersionedMeaning(
        "OffsetFetch",
        7,
        "it can wait for offsets that an open transaction holds (KIP-447)",
        "a new member may begin at an offset that an open transaction is about to move (KIP-447)",
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
    """Request, versions and what they mean: those that mean something first, then the others."""
    for one in MEANINGS:
        for version in requests.get(one.request, ()):
            yield one.request, f"v{version}", one.since if version >= one.version else one.before
    known = {one.request for one in MEANINGS}
    for name, versions in requests.items():
        if name not in known:
            yield name, ", ".join(f"v{version}" for version in versions), ""
