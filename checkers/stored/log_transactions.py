"""Make the tables `markers` and `log_transactions`: the transactions of the broker logs, found by their markers.

A marker does not name its transaction, so markers are paired with the transactions of the transaction log. Every
partition that the transaction log lists for a transaction gets one marker of it. Therefore the first marker of a
producer id in a partition belongs to the first of its transactions that lists the partition, and so on. This needs no
epochs and no clocks.

A coordinator that moved may write a marker again. If there are more markers than transactions, markers that repeat the
marker before them are left out. If the numbers still differ, the producer's markers in that partition are not paired at
all.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.spark.frames import broadcast
from checkers.stored.broker_log import COMPLETE, PREPARED
from checkers.stored.sources import Sources, any_without_journals
from harness.model.promises import TRANSACTIONS_TOPIC

TRANSACTION_KEY = ("run", "log_tp", "log_offset")
"""A transaction is identified by the position at which the transaction log says that it is complete."""
FROM_THE_START = "(internal or log_start = 0)"
"""The log has all records that the run wrote. An internal topic may begin above offset 0, because a shared cluster had
the topic before the run.
"""
IN_TIME = """filter(commits, c -> not exists(commits, earlier -> earlier.tp = c.tp and earlier.group = c.group
    and earlier.committed = c.committed and earlier.log_tp = c.log_tp and earlier.marker_offset < c.log_offset))"""
"""The offset commits of an operation without those that arrived late. Such a commit repeats an earlier one of the
operation, and is in the log above the marker that decided the earlier one: the client had sent the request again.
"""
NTH = "partition by run, tp, producer_id"
EARLIER = "(partition by run, group, tp order by log_offset rows between unbounded preceding and 1 preceding)"


def make_markers(s: Sources, tps: DataFrame, states: DataFrame) -> DataFrame:
    """Make the table `markers`: each marker that could be paired, with its transaction.

    A producer may have markers that repeat the marker before them. Then equal numbers of markers and transactions may
    be a coincidence, and a marker that contradicts its transaction proves nothing. Such a producer is called doubtful
    in that partition.

    Columns:
        run, tp, marker_offset, producer_id
        marker: commit or abort
        log_tp, log_offset: the completion of the transaction in the transaction log
        transactional_id
        decided: commit or abort, by the transaction log
        listed: the number of partitions that the transaction log lists for the transaction
        epoch: of the marker
        given_epoch: the epoch of the transaction's data, by its last Ongoing state; null: not known
        prepared_epoch: the epoch of its markers, by the Prepare and the Complete state; null: not known
        doubtful: the pairing of this producer in this partition may be wrong
    """
    doubtful = f"bool_or(marker != decided and not sure) over ({NTH})"
    return _paired(_markers(s, tps), _completions(tps, states)).selectExpr(
        *("run", "tp", "marker_offset", "producer_id", "marker"),
        *("log_tp", "log_offset", "transactional_id", "decided", "listed"),
        *("epoch", "given_epoch", "prepared_epoch", f"{doubtful} as doubtful"),
    )


def count_doubtful_producers(markers: DataFrame) -> DataFrame:
    """Count the pairs of producer and partition with doubtful markers: run, doubtful_producers."""
    return (
        markers.where("doubtful")
        .groupBy("run")
        .agg(F.expr("count(distinct tp, producer_id) as doubtful_producers"))
    )


def select_markers(markers: DataFrame, runs: DataFrame) -> DataFrame:
    """Select the markers of the transactions that `log_transactions` has, and add `journaled` of the run.

    A run without journals needs every transaction. A run with journals needs only those with a marker that contradicts
    the transaction log, because `torn-transaction` finds the rest by operations.
    """
    sure_markers = markers.where("not doubtful").drop("doubtful")
    contradicted = sure_markers.where("marker != decided").select(*TRANSACTION_KEY).distinct()
    return (
        sure_markers.join(broadcast(runs.select("run", "journaled")), on="run", how="left")
        .join(contradicted.selectExpr("*", "true as contradicted"), on=[*TRANSACTION_KEY], how="left")
        .where("not journaled or contradicted")
        .drop("contradicted")
    )


def make_log_transactions(
    s: Sources, runs: DataFrame, tps: DataFrame, selected: DataFrame, log_entries: DataFrame
) -> DataFrame:
    """Make the table `log_transactions`: the transactions of the `selected` markers, with their records and offset
    commits.

    Columns:
        run
        journaled: every stage of the run keeps journals
        log_tp, log_offset: the completion of the transaction in the transaction log
        transactional_id, producer_id
        decided: commit or abort, by the transaction log
        whole: true if the marker in each of its partitions is known; otherwise null
        records: array [tp, offset, topic, effect, output_name, inputs, arbitrary (several inputs have the same
            correlation key, so the output may belong to another input), op (its operation; null: the record was not
            acknowledged)]
        commits: array of offset commits [tp, committed, first (the offset that the group had committed before), end (of
            the log of that partition; null: not stored), group, log_tp, log_offset, effect, op]
        reads: array of the partitions that stages without journals read for a group; null: there are none, or offset
            commits are gone
    """
    markers = selected.withColumnRenamed("tp", "in_tp")
    without_journals = any_without_journals(s)
    records_of_markers = log_entries.where(
        "marker_offset is not null and commit is null and (found or internal)"
    )
    if without_journals:
        records_of_markers = records_of_markers.join(
            _shared(s), on=["run", "topic", "correlation_key"], how="left"
        )
    else:
        records_of_markers = records_of_markers.withColumn("arbitrary", F.lit(False))
    records = records_of_markers.selectExpr(
        "run",
        "tp as in_tp",
        "marker_offset",
        "struct(tp, offset, topic, fate as effect, output_name, coalesce(inputs, array()) as inputs, "
        "coalesce(arbitrary, false) as arbitrary, get(acks, 0).op as op) as record",
    )
    united = records.unionByName(_commits(tps, log_entries), allowMissingColumns=True).unionByName(
        markers.select("run", "in_tp", "marker_offset"), allowMissingColumns=True
    )  # so that a transaction that wrote nothing has a row
    transactions = (
        united.join(markers, on=["run", "in_tp", "marker_offset"])
        .groupBy(*TRANSACTION_KEY)
        .agg(
            F.expr("any_value(journaled) as journaled"),
            F.expr("any_value(transactional_id) as transactional_id"),
            F.expr("any_value(producer_id) as producer_id"),
            F.expr("any_value(decided) as decided"),
            F.expr("sort_array(collect_list(record)) as records"),
            F.expr("sort_array(collect_list(commit)) as commits"),
        )
        .join(_whole(markers), on=[*TRANSACTION_KEY], how="left")
    )
    if without_journals:
        return transactions.join(broadcast(_reads(s, runs, tps, log_entries)), on="run", how="left")
    return transactions.withColumn("reads", F.expr("cast(null as array<int>)"))


def transactions_of_operations(operations: DataFrame, markers: DataFrame) -> DataFrame:
    """Find the transactions of the transaction log that each operation wrote to, by partition.

    Columns:
        run, op, tp
        log_tp, log_offset, decided: of the transaction
    """
    positions = (
        "array_distinct(concat(transform(records, r -> struct(r.tp as tp, r.marker_offset as marker_offset)), "
        "transform(commits, c -> struct(c.log_tp as tp, c.marker_offset as marker_offset))))"
    )
    return (
        operations.selectExpr("run", "op", f"inline({positions})")
        .where("marker_offset is not null")
        .join(markers.where("not doubtful"), on=["run", "tp", "marker_offset"])
        .select("run", "op", "tp", *TRANSACTION_KEY[1:], "decided")
    )


def count_shared_producers(states: DataFrame) -> DataFrame:
    """Count the producer ids that belong to several transactional ids: run, shared_producers."""
    return (
        states.where("producer_id >= 0")
        .groupBy("run", "producer_id")
        .agg(F.expr("count(distinct transactional_id) as ids"))
        .where("ids > 1")
        .groupBy("run")
        .agg(F.expr("count(1) as shared_producers"))
    )


def count_merged_transactions(operations: DataFrame, markers: DataFrame) -> DataFrame:
    """Count the transactions of the transaction log to which several operations wrote: run, merged.

    Offset commits that arrived late are left out, because the log shows how they came into the transaction.
    """
    return (
        transactions_of_operations(operations.withColumn("commits", F.expr(IN_TIME)), markers)
        .groupBy(*TRANSACTION_KEY)
        .agg(F.expr("count(distinct op) as ops"))
        .where("ops > 1")
        .groupBy("run")
        .agg(F.expr("count(1) as merged"))
    )


def count_markers(s: Sources, tps: DataFrame, states: DataFrame) -> DataFrame:
    """Count the markers of each producer in each partition, for runs whose whole transaction log is stored.

    Columns:
        run, tp, producer_id
        markers: the number of markers, without those that repeat the marker before them
        ended: the number of transactions that list the partition and are complete, or prepared at the end
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
    """Select the correlation keys that several inputs have. It is not known which output belongs to which of these
    inputs.
    """
    return (
        s["expected"]
        .where("correlation_key is not null")
        .groupBy("run", "topic", "correlation_key")
        .agg(F.expr("count(distinct tp, offset) > 1 as arbitrary"))
        .where("arbitrary")
    )


def _paired(markers: DataFrame, completions: DataFrame) -> DataFrame:
    """Pair the n-th marker with the n-th transaction, where their numbers are equal.

    If they are not equal, markers that repeat the marker before them are left out. `sure`: no marker repeats the marker
    before it, or all such markers are left out.
    """
    keys = ["run", "tp", "producer_id", "n", "many"]
    all_markers = markers.selectExpr(
        *("run", "tp", "producer_id", "marker_offset", "marker", "epoch"),
        *("n", "many", "many = many_own as sure"),
    )
    without_repeats = markers.where("not again and many != many_own").selectExpr(
        *(
            "run",
            "tp",
            "producer_id",
            "marker_offset",
            "marker",
            "epoch",
            "n_own as n",
            "many_own as many",
            "true as sure",
        )
    )
    return all_markers.unionByName(without_repeats).join(completions, on=keys)


def _whole(markers: DataFrame) -> DataFrame:
    """Select the transactions whose marker in each of their partitions is known."""
    return (
        markers.groupBy(*TRANSACTION_KEY)
        .agg(F.expr("count(distinct in_tp) = any_value(listed) as whole"))
        .where("whole")
        .select(*TRANSACTION_KEY, "whole")
    )


def _markers(s: Sources, tps: DataFrame) -> DataFrame:
    """Number the markers of each producer in each partition.

    Columns:
        run, tp, producer_id, marker_offset, marker, epoch
        again: the producer's entry before it is the same marker
        n, many: the number of this marker, from 1, and the count
        n_own, many_own: the same numbers, without markers that repeat the marker before them
    """
    partitions = tps.where(f"logged and {FROM_THE_START} and topic != '{TRANSACTIONS_TOPIC}'").select(
        "run", "tp"
    )
    entry_before = f"lag(struct(marker, epoch)) over ({NTH} order by base_offset)"
    return (
        s["batches"]
        .where("leader and producer_id >= 0")
        .join(broadcast(partitions), on=["run", "tp"])
        .selectExpr("*", f"coalesce({entry_before} = struct(marker, epoch), false) as again")
        .where("control and marker is not null")
        .selectExpr(
            *("run", "tp", "producer_id", "base_offset as marker_offset", "marker", "epoch", "again"),
            f"row_number() over ({NTH} order by base_offset) as n",
            f"count(1) over ({NTH}) as many",
            f"count_if(not again) over ({NTH} order by base_offset) as n_own",
            f"count_if(not again) over ({NTH}) as many_own",
        )
    )


def _completions(tps: DataFrame, states: DataFrame) -> DataFrame:
    """Number the completed transactions of each producer that list the partition, in a whole transaction log."""
    return (
        states.where(f"state in {COMPLETE}")
        .join(broadcast(_whole_logs(tps)), on="run", how="left_semi")
        .selectExpr(
            *TRANSACTION_KEY,
            "transactional_id",
            "before.producer_id as producer_id",
            "if(state = 'CompleteCommit', 'commit', 'abort') as decided",
            "size(before.tps) as listed",
            f"if(before.state in {PREPARED} and (producer_id != before.producer_id or epoch = before.epoch), "
            "before.epoch, null) as prepared_epoch",
            f"if(before.state in {PREPARED} and before_2.state = 'Ongoing' "
            "and before_2.producer_id = before.producer_id, before_2.epoch, null) as given_epoch",
            "explode(before.tps) as tp",
        )
        .selectExpr(
            "*",
            f"row_number() over ({NTH} order by log_tp, log_offset) as n",
            f"count(1) over ({NTH}) as many",
        )
    )


def _whole_logs(tps: DataFrame) -> DataFrame:
    """Select the runs whose whole transaction log is stored."""
    return (
        tps.where(f"topic = '{TRANSACTIONS_TOPIC}'")
        .groupBy("run")
        .agg(F.expr("every(logged and not compacted) as whole"))
        .where("whole")
        .select("run")
    )


def _commits(tps: DataFrame, log_entries: DataFrame) -> DataFrame:
    """Select the offset commits within transactions: run, in_tp, marker_offset, commit."""
    commits = log_entries.where(
        "commit.committed is not null and fate in ('commit', 'abort', 'plain')"
    ).selectExpr(
        *("run", "commit.group", "commit.tp", "tp as log_tp", "offset as log_offset", "marker_offset"),
        *("commit.committed", "fate as effect", "commit.op"),
    )
    return (
        commits.selectExpr(
            "*", f"coalesce(last(if(effect != 'abort', committed, null), true) over {EARLIER}, 0L) as first"
        )
        .where("marker_offset is not null")
        .join(broadcast(tps.select("run", "tp", "log_end")), on=["run", "tp"], how="left")
        .selectExpr(
            *("run", "log_tp as in_tp", "marker_offset"),
            "struct(tp, committed, first, log_end as end, group, log_tp, log_offset, effect, op) as commit",
        )
    )


def _reads(s: Sources, runs: DataFrame, tps: DataFrame, log_entries: DataFrame) -> DataFrame:
    """Select for each run the partitions that stages without journals read for a group, if no offset commit is gone.

    Two kinds of topics are left out, because an output may be in another transaction than the offset of its input:

    - inputs of a stage that keeps its offsets elsewhere
    - inputs of a stage whose group also commits offsets of a topic that `pipeline.toml` does not list for the stage:
      its program forwards records to itself
    """
    with_whole_offsets = broadcast(runs.where("offsets_whole").select("run"))
    named = s["stages"].where("journaled = false and group is not null")
    committed_topics = (
        log_entries.where("commit is not null")
        .selectExpr("run", "commit.group", "commit.tp")
        .distinct()
        .join(broadcast(tps.selectExpr("run", "tp", "topic as in_topic")), on=["run", "tp"])
        .select("run", "group", "in_topic")
        .distinct()
    )
    read = named.select("run", "group", "in_topic")
    undeclared = committed_topics.join(broadcast(read), on=["run", "group", "in_topic"], how="left_anti")
    forwarding = named.join(
        broadcast(undeclared.select("run", "group").distinct()), on=["run", "group"], how="left_semi"
    )
    elsewhere = s["stages"].where("journaled = false and group is null").unionByName(forwarding)
    stages = named.join(with_whole_offsets, on="run").join(
        broadcast(elsewhere.select("run", "in_topic").distinct()), on=["run", "in_topic"], how="left_anti"
    )
    return (
        tps.selectExpr("run", "tp", "topic as in_topic")
        .join(broadcast(stages.select("run", "in_topic").distinct()), on=["run", "in_topic"])
        .groupBy("run")
        .agg(F.expr("collect_set(tp) as reads"))
    )
