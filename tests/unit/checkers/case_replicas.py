"""Replicas of runs whose partitions bear the same numbers."""

from cases import case
from histories import History, Row


def _differs_in_y(h: History) -> None:
    """The follower holds something else in y."""
    h.feed(1)
    h.take(0)
    h.put("y", None)
    h.followers = 1

    def bend(row: Row) -> Row:
        own = (row["broker"], row["tp"], row["base_offset"]) == (2, h.tp["y"], 0)
        return row | {"crc": 9} if own else row

    h.alter("batches", bend)


@case(replica_divergence=1)
def a_topic_that_is_not_compacted_may_not_differ(h: History) -> None:
    _differs_in_y(h)


@case(broken=("y/0 is compacted",))
def a_topic_that_is_compacted_in_this_run_may_differ(h: History) -> None:
    _differs_in_y(h)
    h.alter("partitions", lambda row: row | {"compacted": row["compacted"] or row["topic"] == "y"})
