"""Markers held back: a transaction that is decided stays in Prepare while its coordinator cannot write its markers.

Kafka decides a transaction by two records in its coordinator's log: Prepare, after which nothing can change its mind,
and Complete, once every partition has its marker. Between the two lie milliseconds, unless the links are cut by which
the coordinator dials those that lead the partitions.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from harness.cluster import TransactionView
from harness.network import Cut
from harness.network.links import peer_link
from harness.runner.nemesis import FaultContext
from nemeses.aiming.in_transaction import find_leader


def other_leaders(context: FaultContext, coordinator: int, view: TransactionView) -> set[int]:
    """The brokers, its coordinator aside, that lead what a transaction has written: those that a cut can keep from
    their markers.
    """
    return {find_leader(context, place) for place in view.partitions} - {coordinator, -1}


@contextmanager
def hold_back_markers(context: FaultContext, coordinator: int, leaders: Collection[int]) -> Iterator[None]:
    """No marker reaches these leaders for the length of a `with`. Raises `FaultFailed`.

    The coordinator follows them by the same links: it falls out of sync, and what they are given is acknowledged once
    they have noticed (`replica.lag.time.max.ms`).
    """
    links = [peer_link(coordinator, leader, "int") for leader in sorted(leaders)]
    with context.cluster.network.impose(links, Cut()):
        yield


def describe_transaction(coordinator: int, transactional_id: str, view: TransactionView) -> str:
    """What the coordinator said, in a sentence."""
    topic, number = view.partitions[0]
    more = f" and {len(view.partitions) - 1} more" if len(view.partitions) > 1 else ""
    return (
        f"broker {coordinator} said that {transactional_id} was in {view.state}, "
        f"with no marker yet in {topic}/{number}{more}"
    )
