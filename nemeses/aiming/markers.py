"""Hold back the markers of a transaction, so that it stays in the state Prepare.

The coordinator of a transaction writes two records to its log. After the record Prepare, the outcome is decided and
cannot change. The record Complete follows when every partition has its marker. Usually there are only milliseconds
between the two. There is more time if the links from the coordinator to the leaders of the partitions are cut.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from harness.cluster import TransactionView
from harness.network import Cut
from harness.network.links import peer_link
from harness.runner.nemesis import FaultContext
from nemeses.aiming.in_transaction import find_leader


def other_leaders(context: FaultContext, coordinator: int, view: TransactionView) -> set[int]:
    """Return the leaders of the partitions that a transaction has written, without its coordinator.

    Only markers to these leaders can be held back by a cut: the coordinator needs no link to write markers to itself.
    """
    return {find_leader(context, topic_partition) for topic_partition in view.partitions} - {coordinator, -1}


@contextmanager
def hold_back_markers(context: FaultContext, coordinator: int, leaders: Collection[int]) -> Iterator[None]:
    """Hold back markers to these leaders until the end of the `with`. Raises `FaultFailed`.

    The coordinator uses the same links to fetch from these leaders, so its replicas fall out of sync. Until the leaders
    notice this (after `replica.lag.time.max.ms`), they acknowledge no record with acks=all.
    """
    links = [peer_link(coordinator, leader, "int") for leader in sorted(leaders)]
    with context.cluster.network.impose(links, Cut()):
        yield


def describe_transaction(coordinator: int, transactional_id: str, view: TransactionView) -> str:
    """Describe the state of a transaction in a sentence."""
    topic, number = view.partitions[0]
    other_partitions = f" and {len(view.partitions) - 1} more" if len(view.partitions) > 1 else ""
    return (
        f"broker {coordinator} said that {transactional_id} was in {view.state}, "
        f"with no marker yet in {topic}/{number}{other_partitions}"
    )
