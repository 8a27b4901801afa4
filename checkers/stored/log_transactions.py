"""The transactions of the brokers' logs: by the transaction log, and by their markers.

Every partition that the transaction log lists in a transaction gets one marker of it. So of one producer id the first
marker in a partition is of the first transaction that lists it, and so on, whatever the epochs and the clocks say.
A coordinator that moved may write one again: where there are more markers than transactions, those that repeat the one
before them are left out. Where the numbers differ all the same, nothing is said of that producer in that partition.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.spark.joins import broadcast
from checkers.stored.producers import COMPLETE, PREPARED, TRANSACTIONS_TOPIC
from checkers.stored.sources import Sources, any_unjournaled

SPAN = ("run", "log_tp", "log_offset")
"""A transaction goes by the place at which the transaction log says that it is complete."""
FROM_THE_START = "(internal or log_start = 0)"
"""All that the run wrote is there. An internal topic begins where the run found it, on a cluster that others use."""
NTH = "partition by run, tp, producer_id"
EARLIER = "(partition by run, group, tp order by log_offset rows between unbounded preceding and 1 preceding)"


def make_markers(s: Sources, tps: DataFrame, states: DataFrame) -> DataFrame:
    """The markers with their transactions: run, tp, marker_offset, producer_id, marker (commit, abort); of the
    transaction: log_tp, log_offset (of its completion), transactional_id, decided (commit, abort), listed (how many
    partitions the transaction log lists in it); doubtful (the pairing of the producer in the partition may be wrong).

    A producer may have markers that repeat the one before. Then an equal number of markers and transactions may be a
    coincidence, and a marker that contradicts its transaction proves nothing.
    """
    doubtful = f"bool_or(marker != decided and not sure) over ({NTH})"
    return _paired(_markers(s, tps), _completions(tps, states)).selectExpr(
        *("run", "tp", "marker_offset", "producer_id", "marker"),
        *("log_tp", "log_offset", "transactional_id", "decided", "listed", f"{doubtful} as doubtful"),
    )


def count_doubtful_producers(markers: DataFrame) -> DataFrame:
    """By run: doubtful_producers, the number of producers and partitions whose markers are doubtful."""
    return (
        markers.where("doubtful")
        .groupBy("run")
        .agg(F.expr("count(distinct tp, producer_id) as doubtful_producers"))
    )


def select_markers(markers: DataFrame, runs: DataFrame) -> DataFrame:
    """Select the markers of the transactions in `log_transactions`; the column journaled is of the run.

    A run without journals needs every transaction. A run with journals needs those that have a marker which
    contradicts the transaction log: `torn-transaction` finds the rest by operations.
    """
    known = markers.where("not doubtful").drop("doubtful")
    contradicted = known.where("marker != decided").select(*SPAN).distinct()
    return (
        known.join(broadcast(runs.select("run", "journaled")), on="run", how="left")
        .join(contradicted.selectExpr("*", "true as contradicted"), on=[*SPAN], how="left")
        .where("not journaled or contradicted")
        .drop("contradicted")
    )


def make_log_transactions(
    s: Sources, runs: DataFrame, tps: DataFrame, selected: DataFrame, positions: DataFrame
) -> DataFrame:
    """The transactions of the `selected` markers: run, journaled (of the run); log_tp, log_offset (of its completion);
    transactional_id, producer_id, decided (commit, abort); whole (the marker in each of its partitions is known; null:
    it is not); records [tp, offset, topic, effect, output name, inputs, arbitrary (it may be of another input: several
    are alike), op (its operation; null: it was not acknowledged)]; commits [tp, committed, first (up to where the group
    had committed before), end (of the log of that partition; null: it is not here), group, log_tp, log_offset, effect,
    op]; of the run: reads [tp] (of the stages that commit for a group; null: none does, or offset commits are gone).
    """
    of = selected.withColumnRenamed("tp", "in_tp")
    unjournaled = any_unjournaled(s)
    marked = positions.where("marker_offset is not null and commit is null and (found or internal)")
    if unjournaled:
        marked = marked.join(_shared(s), on=["run", "topic", "correlation_key"], how="left")
    else:
        marked = marked.withColumn("arbitrary", F.lit(False))
    records = marked.selectExpr(
        "run",
        "tp as in_tp",
        "marker_offset",
        "struct(tp, offset, topic, fate as effect, output_name, coalesce(inputs, array()) as inputs, "
        "coalesce(arbitrary, false) as arbitrary, get(acks, 0).op as op) as record",
    )
    united = records.unionByName(_commits(tps, positions), allowMissingColumns=True).unionByName(
        of.select("run", "in_tp", "marker_offset"), allowMissingColumns=True
    )  # with a transaction that wrote nothing
    found = (
        united.join(of, on=["run", "in_tp", "marker_offset"])
        .groupBy(*SPAN)
        .agg(
            F.expr("any_value(journaled) as journaled"),
            F.expr("any_value(transactional_id) as transactional_id"),
            F.expr("any_value(producer_id) as producer_id"),
            F.expr("any_value(decided) as decided"),
            F.expr("sort_array(collect_list(record)) as records"),
            F.expr("sort_array(collect_list(commit)) as commits"),
        )
        .join(_whole(of), on=[*SPAN], how="left")
    )
    if unjournaled:
        return found.join(broadcast(_reads(s, runs, tps, positions)), on="run", how="left")
    return found.withColumn("reads", F.expr("cast(null as array<int>)"))


def transactions_of_operations(operations: DataFrame, markers: DataFrame) -> DataFrame:
    """By operation and partition: run, op, tp; log_tp, log_offset, decided (of the transaction in the log)."""
    places = (
        "array_distinct(concat(transform(records, r -> struct(r.tp as tp, r.marker_offset as marker_offset)), "
        "transform(commits, c -> struct(c.log_tp as tp, c.marker_offset as marker_offset))))"
    )
    return (
        operations.selectExpr("run", "op", f"inline({places})")
        .where("marker_offset is not null")
        .join(markers.where("not doubtful"), on=["run", "tp", "marker_offset"])
        .select("run", "op", "tp", *SPAN[1:], "decided")
    )


def count_shared_producers(states: DataFrame) -> DataFrame:
    """By run: shared_producers, the number of producer ids that belong to several transactional ids."""
    return (
        states.where("producer_id >= 0")
        .groupBy("run", "producer_id")
        .agg(F.expr("count(distinct transactional_id) as ids"))
        .where("ids > 1")
        .groupBy("run")
        .agg(F.expr("count(1) as shared_producers"))
    )


def count_merged_transactions(operations: DataFrame, markers: DataFrame) -> DataFrame:
    """By run: merged, the number of its transactions in the log to which several operations wrote."""
    return (
        transactions_of_operations(operations, markers)
        .groupBy(*SPAN)
        .agg(F.expr("count(distinct op) as ops"))
        .where("ops > 1")
        .groupBy("run")
        .agg(F.expr("count(1) as merged"))
    )


def count_markers(s: Sources, tps: DataFrame, states: DataFrame) -> DataFrame:
    """run, tp, producer_id; markers (without those that repeat the one before), ended: how many transactions of the
    producer that list the partition are complete, or are prepared and stay so. Of runs whose whole transaction log is
    here.
    """
    keys = ["run", "tp", "producer_id"]
    markers = _markers(s, tps).groupBy(*keys).agg(F.expr("max(many_own) as markers"))
    complete = states.where(f"state in {COMPLETE}").selectExpr(
        "run", "before.producer_id", "explode(before.tps) as tp"
    )
    prepared = states.where(f"last and state in {PREPARED}").selectExpr(
        "run", "producer_id", "explode(tps) as tp"
    )
    ended = complete.unionByName(prepared).groupBy(*keys).agg(F.expr("count(1) as ended"))
    return (
        markers.join(broadcast(_whole_logs(tps)), on="run", how="left_semi")
        .join(ended, on=keys, how="left")
        .selectExpr(*keys, "markers", "coalesce(ended, 0L) as ended")
    )


def _shared(s: Sources) -> DataFrame:
    """What outputs of several inputs are about: which of them is of which input nobody knows."""
    return (
        s["expected"]
        .where("correlation_key is not null")
        .groupBy("run", "topic", "correlation_key")
        .agg(F.expr("count(distinct tp, offset) > 1 as arbitrary"))
        .where("arbitrary")
    )


def _paired(markers: DataFrame, completions: DataFrame) -> DataFrame:
    """Pair the n-th marker with the n-th transaction, where their numbers are equal.

    If not, markers that repeat the one before are left out. The column sure is false if they were counted.
    """
    by = ["run", "tp", "producer_id", "n", "many"]
    named = markers.selectExpr(
        *("run", "tp", "producer_id", "marker_offset", "marker", "n", "many", "many = many_own as sure")
    )
    fewer = markers.where("not again and many != many_own").selectExpr(
        *(
            "run",
            "tp",
            "producer_id",
            "marker_offset",
            "marker",
            "n_own as n",
            "many_own as many",
            "true as sure",
        )
    )
    return named.unionByName(fewer).join(completions, on=by)


def _whole(of: DataFrame) -> DataFrame:
    """The transactions of which the marker in each of their partitions is known."""
    return (
        of.groupBy(*SPAN)
        .agg(F.expr("count(distinct in_tp) = any_value(listed) as whole"))
        .where("whole")
        .select(*SPAN, "whole")
    )


def _markers(s: Sources, tps: DataFrame) -> DataFrame:
    """run, tp, producer_id, marker_offset, marker; n (its number in the partition, from 1), many (the number of the
    producer's markers there); again (the producer's entry before it is the same marker); n_own, many_own: n and many
    without markers that repeat the one before.
    """
    here = tps.where(f"logged and {FROM_THE_START} and topic != '{TRANSACTIONS_TOPIC}'").select("run", "tp")
    before = f"lag(struct(marker, epoch)) over ({NTH} order by base_offset)"
    return (
        s["batches"]
        .where("leader and producer_id >= 0")
        .join(broadcast(here), on=["run", "tp"])
        .selectExpr("*", f"coalesce({before} = struct(marker, epoch), false) as again")
        .where("control and marker is not null")
        .selectExpr(
            *("run", "tp", "producer_id", "base_offset as marker_offset", "marker", "again"),
            f"row_number() over ({NTH} order by base_offset) as n",
            f"count(1) over ({NTH}) as many",
            f"count_if(not again) over ({NTH} order by base_offset) as n_own",
            f"count_if(not again) over ({NTH}) as many_own",
        )
    )


def _completions(tps: DataFrame, states: DataFrame) -> DataFrame:
    """The same of the completed transactions that list the partition, in a transaction log that is whole."""
    return (
        states.where(f"state in {COMPLETE}")
        .join(broadcast(_whole_logs(tps)), on="run", how="left_semi")
        .selectExpr(
            *SPAN,
            "transactional_id",
            "before.producer_id as producer_id",
            "if(state = 'CompleteCommit', 'commit', 'abort') as decided",
            "size(before.tps) as listed",
            "explode(before.tps) as tp",
        )
        .selectExpr(
            "*",
            f"row_number() over ({NTH} order by log_tp, log_offset) as n",
            f"count(1) over ({NTH}) as many",
        )
    )


def _whole_logs(tps: DataFrame) -> DataFrame:
    """The runs whose whole transaction log is here."""
    return (
        tps.where(f"topic = '{TRANSACTIONS_TOPIC}'")
        .groupBy("run")
        .agg(F.expr("every(logged and not compacted) as whole"))
        .where("whole")
        .select("run")
    )


def _commits(tps: DataFrame, positions: DataFrame) -> DataFrame:
    """The offset commits within transactions: run, in_tp, marker_offset, commit."""
    told = positions.where(
        "commit.committed is not null and fate in ('commit', 'abort', 'plain')"
    ).selectExpr(
        *("run", "commit.group", "commit.tp", "tp as log_tp", "offset as log_offset", "marker_offset"),
        *("commit.committed", "fate as effect", "commit.op"),
    )
    return (
        told.selectExpr(
            "*", f"coalesce(max(if(effect != 'abort', committed, null)) over {EARLIER}, 0L) as first"
        )
        .where("marker_offset is not null")
        .join(broadcast(tps.select("run", "tp", "log_end")), on=["run", "tp"], how="left")
        .selectExpr(
            *("run", "log_tp as in_tp", "marker_offset"),
            "struct(tp, committed, first, log_end as end, group, log_tp, log_offset, effect, op) as commit",
        )
    )


def _reads(s: Sources, runs: DataFrame, tps: DataFrame, positions: DataFrame) -> DataFrame:
    """By run, the partitions that stages without journals read for a group, where no offset commit is gone.

    What is read by a group that commits offsets of a topic that its stage is not said to read is left out: its program
    hands records on to itself, and an output comes in another transaction than the offset of its input. So is what a
    stage reads that keeps its offsets elsewhere.
    """
    whole = broadcast(runs.where("offsets_whole").select("run"))
    named = s["stages"].where("journaled = false and group is not null")
    taken = (
        positions.where("commit is not null")
        .selectExpr("run", "commit.group", "commit.tp")
        .distinct()
        .join(broadcast(tps.selectExpr("run", "tp", "topic as in_topic")), on=["run", "tp"])
        .select("run", "group", "in_topic")
        .distinct()
    )
    read = named.select("run", "group", "in_topic")
    on_its_own = taken.join(broadcast(read), on=["run", "group", "in_topic"], how="left_anti")
    handing_on = named.join(
        broadcast(on_its_own.select("run", "group").distinct()), on=["run", "group"], how="left_semi"
    )
    elsewhere = s["stages"].where("journaled = false and group is null").unionByName(handing_on)
    stages = named.join(whole, on="run").join(
        broadcast(elsewhere.select("run", "in_topic").distinct()), on=["run", "in_topic"], how="left_anti"
    )
    return (
        tps.selectExpr("run", "tp", "topic as in_topic")
        .join(broadcast(stages.select("run", "in_topic").distinct()), on=["run", "in_topic"])
        .groupBy("run")
        .agg(F.expr("collect_set(tp) as reads"))
    )
