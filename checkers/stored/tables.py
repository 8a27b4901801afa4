"""The shared tables: what the three witnesses say, brought together once, for every checker.

Each is one shuffle of the raw tables, by the key that its checks need, and is kept while the checkers
run. A checker filters them and takes their lists apart; it makes no shuffle of its own unless it must.

`runs`        by run: what is known of it, and what its end looked like
`tps`         by run and tp: names, what the log covers, how far the final readers came
`batches`     by run, tp and base offset: the leader's data batches with their fate
`states`      by run and place in the transaction log: the states of each transaction, with those before
`positions`   by run, tp and offset: what the log holds there, the record that the final reader found
              there, the sends acknowledged there, who was given it, the offset commit in it
`deliveries` the deliveries of which one may be wrong
`values`      by run and name of the value: who announced it, and where it stands
`operations`  by run and op: the operation, the fates of its records, its offset commits, its claims
`inputs`      by run, tp and offset of an input: what it must lead to, and what it led to
`groups`      by run, group and tp: the first position and the last committed offset
`spans`       by run and transaction of a stage without journals: its records and offset commits, by markers
`inits`       the initialisations of transactional ids
`losses`      the moments at which partitions were taken from a worker
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.spark.checkpoint import keep
from checkers.stored.inputs import OFFSETS_TOPIC, make_groups, make_inputs, make_ranges
from checkers.stored.operations import make_operations
from checkers.stored.partitions import make_tps
from checkers.stored.position_events import make_moves
from checkers.stored.positions import make_deliveries, make_positions
from checkers.stored.producers import make_batches, make_quiet, make_states
from checkers.stored.sources import Sources
from checkers.stored.spans import make_spans
from checkers.stored.values import make_values
from harness.history import Outcome


@dataclass(frozen=True)
class Tables:
    """The shared tables; the columns of each stand at the function that makes it."""

    suffix: ClassVar = ""
    """Of the functions that look at them."""

    runs: DataFrame
    tps: DataFrame
    topics: DataFrame
    batches: DataFrame
    states: DataFrame
    positions: DataFrame
    deliveries: DataFrame
    values: DataFrame
    operations: DataFrame
    inputs: DataFrame
    groups: DataFrame
    moves: DataFrame
    ranges: DataFrame
    inits: DataFrame
    losses: DataFrame
    spans: DataFrame | None  # None: every stage of these runs keeps journals
    journals: DataFrame
    polls: DataFrame  # as recorded: to be joined with a few records that are suspected
    headers: DataFrame  # as recorded: every replica's batches
    replicas: DataFrame


def make_tables(sources: Sources, unjournaled: bool = False) -> Tables:
    """The shared tables, each computed once; the small ones while the large ones are under way. `unjournaled`: a stage
    of these runs keeps no journals.
    """
    with ThreadPoolExecutor(max_workers=2, thread_name_prefix="tables") as pool:
        journals = pool.submit(lambda: keep(_journals(sources)))
        tps = keep(make_tps(sources))
        topics = pool.submit(lambda: keep(_topics(sources, tps)))
        runs = keep(_runs(sources, tps))
        states = pool.submit(lambda: keep(make_states(sources, runs)))
        batches = keep(make_batches(sources, tps, runs))
        positions = keep(make_positions(sources, tps, batches))
        deliveries = pool.submit(lambda: keep(make_deliveries(sources, positions)))
        values = keep(make_values(sources, positions))
        operations = keep(make_operations(sources, runs, journals.result(), positions, values))
        moves = keep(make_moves(sources, tps, positions, operations))
        ranges = pool.submit(lambda: keep(make_ranges(operations, moves)))
        groups = pool.submit(
            lambda: keep(make_groups(sources, runs, tps, positions, operations, unjournaled))
        )
        inputs = keep(make_inputs(sources, tps, positions, values, operations, unjournaled))
        spans = keep(make_spans(sources, runs, tps, states.result(), positions)) if unjournaled else None
        return Tables(
            runs=runs,
            tps=tps,
            topics=topics.result(),
            batches=batches,
            states=states.result(),
            positions=positions,
            deliveries=deliveries.result(),
            values=values,
            operations=operations,
            inputs=inputs,
            groups=groups.result(),
            moves=moves,
            ranges=ranges.result(),
            inits=sources["ops"].where(f"f = 'init' and outcome = '{Outcome.OK.value}'"),
            spans=spans,
            losses=sources["assignments"].where("not gained").select("run", "journal", "time_ns"),
            journals=journals.result(),
            polls=sources["polls"],
            headers=sources["batches"],
            replicas=sources["replicas"],
        )


def _topics(s: Sources, tps: DataFrame) -> DataFrame:
    """run, topic; of all its partitions together: topic_rc_end, topic_ru_end, topic_logged,
    topic_whole (none of them is compacted, or begins above 0);
    announced (somebody has announced a send to it); named (outputs that name their inputs are due in it, of stages
    without journals).
    """
    announced = s["sends"].select("run", "topic").distinct().selectExpr("*", "true as announced")
    named = (
        s["expected"]
        .where("slot is not null and about is null")
        .join(F.broadcast(s["stages"].where("journaled = false")), on=["run", "stage"], how="left_semi")
        .select("run", "topic")
        .distinct()
        .selectExpr("*", "true as named")
    )
    whole = "not compacted and coalesce(greatest(rc_first, ru_first), 0) = 0"
    told = (
        "every(rc_end) as topic_rc_end",
        "every(ru_end) as topic_ru_end",
        "every(logged) as topic_logged",
        f"every({whole}) as topic_whole",
    )
    return (
        tps.where("not internal")
        .groupBy("run", "topic")
        .agg(*map(F.expr, told))
        .join(announced, on=["run", "topic"], how="left")
        .join(named, on=["run", "topic"], how="left")
        .fillna(False, ["announced", "named"])
    )


def _runs(s: Sources, tps: DataFrame) -> DataFrame:
    """run, wall_ms, whole, healed_ns, session_ms; commits_logged (the whole log of offset commits is
    here), offsets_whole (and is not compacted), commits_whole (and each of a group of the pipeline's is
    transactional and names its operation); and the columns of `checkers.stored.producers.make_quiet`.
    """
    topic = (
        tps.where(f"topic = '{OFFSETS_TOPIC}'")
        .groupBy("run")
        .agg(
            F.expr("every(logged) as commits_logged"),
            F.expr("every(logged and not compacted) as offsets_whole"),
        )
    )
    commits = (
        s["offsets"]
        .join(F.broadcast(s["stages"].select("run", "group")), on=["run", "group"], how="left_semi")
        .groupBy("run")
        .agg(F.expr("every(op is not null and transactional) as commits_named"))
    )
    return (
        s["runs"]
        .join(topic, on="run", how="left")
        .join(commits, on="run", how="left")
        .join(make_quiet(s, tps), on="run", how="left")
        .selectExpr(
            *("run", "judgeable", "end_ms", "longest_ms", "wall_ms", "whole", "healed_ns", "session_ms"),
            "coalesce(commits_logged, false) as commits_logged",
            "coalesce(offsets_whole, false) as offsets_whole",
            "coalesce(offsets_whole and coalesce(commits_named, true), false) as commits_whole",
        )
    )


def _journals(s: Sources) -> DataFrame:
    """run, journal, role, ended, intact (all that it ever held is here), unbroken (the last line aside)."""
    counted = s["ops"].groupBy("run", "journal").agg(F.expr("count(1) as counted"))
    whole = "(missing_lines = 0 and coalesce(counted, 0) = ops)"
    return (
        s["journals"]
        .join(counted, on=["run", "journal"], how="left")
        .selectExpr(
            *("missing_lines", "ops", "coalesce(counted, 0) as counted", "run", "journal", "role", "ended"),
            f"{whole} as unbroken",
            f"{whole} and torn_lines = 0 as intact",
        )
    )
