"""By partition and offset: what the log holds in each place, and what became of it."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.stored.sources import Sources
from harness.history import Fate, Guarantee, Isolation, Positions, Role


def effective(fate: str) -> str:
    """What a record's fate amounts to: commit (plain too), abort, open; null where there is no log."""
    return f"if({fate} = '{Fate.PLAIN.value}', '{Fate.COMMIT.value}', {fate})"


def make_tps(s: Sources) -> DataFrame:
    """run, tp, topic, partition, internal, compacted, is_input; ordered (every stage that reads it promises
    order); each (a stage takes its records in any order, and marks each as done); lenient [stage] (of the run: those
    that promise an effect at least once); logged (the leader's log is here and whole), log_start, log_end,
    high_watermark, followers (how many other replicas are here), unreadable [broker, log_end, high_watermark] (one of
    them that is damaged, and cannot be read up to its high watermark); for the final readers rc (read committed) and
    ru: rc_first (where they began, or where the log begins, if that is higher), rc_next, rc_end (came to the
    sentinel), ru_first, ru_next, ru_end.
    """
    start = "if(logged, log_start, null)"
    return (
        s["partitions"]
        .join(F.broadcast(_leaders(s)), on=["run", "tp"], how="left")
        .join(F.broadcast(_readers(s)), on=["run", "tp"], how="left")
        .join(F.broadcast(_input_topics(s)), on=["run", "topic"], how="left")
        .join(F.broadcast(_lenient(s)), on="run", how="left")
        .selectExpr(
            *("run", "tp", "topic", "partition", "internal", "compacted"),
            *(f"coalesce({flag}, false) as {flag}" for flag in ("is_input", "ordered", "each", "logged")),
            "lenient",
            *("log_start", "log_end", "high_watermark"),
            "coalesce(followers, 0) as followers",
            "unreadable",
            f"greatest(rc.first, {start}) as rc_first",
            "rc.next as rc_next",
            "rc.sentinel_offset is not null as rc_end",
            f"greatest(ru.first, {start}) as ru_first",
            "ru.next as ru_next",
            "ru.sentinel_offset is not null as ru_end",
        )
    )


def _leaders(s: Sources) -> DataFrame:
    """By partition, how far the log of its one leader goes, and a follower that cannot be read to the end."""
    # A torn tail above the high watermark is what a killed broker may leave: Kafka cuts it off.
    short = "damaged is not null and coalesce(log_end < high_watermark, true)"
    log = "struct(damaged is null as logged, log_start, log_end, high_watermark)"
    told = (
        f"min(if(leader, {log}, null)) as log",
        "count(if(not leader, 1, null)) as followers",
        f"min(if(not leader and {short}, struct(broker, log_end, high_watermark), null)) as unreadable",
    )
    found = s["replicas"].groupBy("run", "tp").agg(*map(F.expr, told))
    return found.select("run", "tp", "log.*", "followers", "unreadable")


def _readers(s: Sources) -> DataFrame:
    """By partition, how far the final readers came, one of each isolation level: rc, ru."""
    levels = (("rc", Isolation.READ_COMMITTED), ("ru", Isolation.READ_UNCOMMITTED))
    return (
        s["ends"]
        .where(f"coalesce(role != '{Role.OBSERVER.value}', true)")
        .groupBy("run", "tp")
        .agg(
            *(
                F.expr(
                    f"min(if(isolation = '{level.value}', struct(first, next, sentinel_offset), null)) as {name}"
                )
                for name, level in levels
            )
        )
    )


def _input_topics(s: Sources) -> DataFrame:
    """By topic that a stage reads, what its stages promise."""
    return (
        s["stages"]
        .selectExpr("run", "in_topic as topic", "coalesce(ordered, false) as ordered", "positions")
        .groupBy("run", "topic")
        .agg(
            F.expr("true as is_input"),
            F.expr("every(ordered) as ordered"),
            F.expr(f"coalesce(some(positions = '{Positions.EACH.value}'), false) as each"),
        )
    )


def _lenient(s: Sources) -> DataFrame:
    """By run, the stages whose own guarantee permits that an input takes effect more than once."""
    return (
        s["stages"]
        .where(f"guarantee = '{Guarantee.AT_LEAST_ONCE.value}'")
        .groupBy("run")
        .agg(F.expr("collect_set(stage) as lenient"))
    )
