"""The shared tables: what the three witnesses say, brought together once, for every checker.

Each is one shuffle of the raw tables, by the key that its checks need, and is kept while the checkers
run. A checker filters them and takes their lists apart; it makes no shuffle of its own unless it must.

`tps`         by run and tp: names, what the log covers, how far the final readers came
`batches`     by run, tp and base offset: the leader's data batches with their fate
`positions`   by run, tp and offset: what the log holds there, the record that the final reader found
              there, the sends acknowledged there, the polls that were given it, the offset commit in it
`values`      by run and name of the value: who announced it, where it stands, who was given it
`operations`  by run and op: the operation, the fates of its records, its offset commits, its claims
`inputs`      by run, tp and offset of an input: what it must lead to, and what it led to
`groups`      by run, group and tp: the first position and the last committed offset
`inits`       the initialisations of transactional ids
"""

from dataclasses import dataclass

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from checkers.sources import Sources
from harness.history import Fate, Isolation, Outcome, Role

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
LATE_MS = 30_000
"""How long beyond its own time-out a transaction may stay listed as ongoing: twice Kafka's default
clean-up interval (10 s), and as much again for a coordinator that moves."""
EFFECTIVE = (Fate.COMMIT.value, Fate.PLAIN.value)
PENDING_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort")


@dataclass(frozen=True)
class Tables:
    """The shared tables; the columns of each stand at the function that makes it."""

    runs: DataFrame
    tps: DataFrame
    topics: DataFrame
    batches: DataFrame
    positions: DataFrame
    values: DataFrame
    operations: DataFrame
    inputs: DataFrame
    groups: DataFrame
    inits: DataFrame
    journals: DataFrame


def make_tables(sources: Sources) -> Tables:
    """The shared tables, each computed once."""
    tps = keep(_tps(sources))
    batches = keep(_batches(sources, tps))
    positions = keep(_positions(sources, tps, batches))
    writers = _writers(sources)
    values = keep(_values(sources, writers, positions))
    operations = keep(_operations(sources, positions, values))
    groups = _groups(sources, tps, positions, operations)
    inputs = keep(_inputs(sources, tps, positions, values, operations))
    return Tables(
        runs=_runs(sources, tps),
        tps=tps,
        topics=_topics(sources, tps),
        batches=batches,
        positions=positions,
        values=values,
        operations=operations,
        inputs=inputs,
        groups=groups,
        inits=sources["ops"].where((F.col("f") == "init") & (F.col("outcome") == Outcome.OK.value)),
        journals=_journals(sources),
    )


def keep(frame: DataFrame) -> DataFrame:
    """Compute it now, once, in memory (on disk, where it does not fit); what builds on it sees no history.

    Not `persist`: Spark tells its listeners of every plan with all that is cached below it, and five tables
    that build on each other fill a driver's memory with descriptions.
    """
    return frame.localCheckpoint(eager=True, storageLevel=StorageLevel.MEMORY_AND_DISK)


def effective(fate: Column) -> Column:
    """What a record's fate amounts to: commit (plain too), abort, open; null where there is no log."""
    return F.when(fate == Fate.PLAIN.value, F.lit(Fate.COMMIT.value)).otherwise(fate)


def _tps(s: Sources) -> DataFrame:
    """run, tp, topic, partition, internal, compacted, is_input; logged (the leader's log is here and whole),
    log_start, log_end, high_watermark; for the final readers rc (read committed) and ru: rc_first, rc_next,
    rc_end (came to the sentinel), ru_first, ru_next, ru_end.
    """
    leaders = (
        s["replicas"]
        .where("leader")
        .groupBy("run", "tp")
        .agg(
            F.every(F.col("damaged").isNull()).alias("logged"),
            F.max("log_start").alias("log_start"),
            F.max("log_end").alias("log_end"),
            F.max("high_watermark").alias("high_watermark"),
        )
    )

    def of(isolation: Isolation, column: str) -> Column:
        return F.when(F.col("isolation") == isolation.value, F.col(column))

    readers = (
        s["ends"]
        .groupBy("run", "tp")
        .agg(
            *(
                column
                for short, isolation in (("rc", Isolation.READ_COMMITTED), ("ru", Isolation.READ_UNCOMMITTED))
                for column in (
                    F.min(of(isolation, "first")).alias(f"{short}_first"),
                    F.max(of(isolation, "next")).alias(f"{short}_next"),
                    F.max(of(isolation, "sentinel_offset")).alias(f"{short}_sentinel"),
                )
            )
        )
    )
    input_topics = (
        s["stages"].select("run", F.col("in_topic").alias("topic"), F.lit(True).alias("is_input")).distinct()
    )
    return (
        s["partitions"]
        .join(F.broadcast(leaders), on=["run", "tp"], how="left")
        .join(F.broadcast(readers), on=["run", "tp"], how="left")
        .join(F.broadcast(input_topics), on=["run", "topic"], how="left")
        .select(
            "run", "tp", "topic", "partition", "internal", "compacted",
            F.coalesce("is_input", F.lit(False)).alias("is_input"),
            F.coalesce("logged", F.lit(False)).alias("logged"),
            "log_start", "log_end", "high_watermark",
            "rc_first", "rc_next", F.col("rc_sentinel").isNotNull().alias("rc_end"),
            "ru_first", "ru_next", F.col("ru_sentinel").isNotNull().alias("ru_end"),
        )
    )  # fmt: skip


def _topics(s: Sources, tps: DataFrame) -> DataFrame:
    """run, topic; of all its partitions together: topic_rc_end, topic_ru_end, topic_logged, topic_compacted;
    announced (somebody has announced a send to it).
    """
    announced = s["sends"].select("run", "topic").distinct().withColumn("announced", F.lit(True))
    return (
        tps.where(~F.col("internal"))
        .groupBy("run", "topic")
        .agg(
            F.every("rc_end").alias("topic_rc_end"),
            F.every("ru_end").alias("topic_ru_end"),
            F.every("logged").alias("topic_logged"),
            F.some("compacted").alias("topic_compacted"),
        )
        .join(announced, on=["run", "topic"], how="left")
        .withColumn("announced", F.coalesce("announced", F.lit(False)))
    )


def _runs(s: Sources, tps: DataFrame) -> DataFrame:
    """run, wall_ms, whole; commits_whole (the whole log of offset commits is here, uncompacted, and each of
    them is transactional and names its operation).
    """
    topic = (
        tps.where(F.col("topic") == OFFSETS_TOPIC)
        .groupBy("run")
        .agg(F.every(F.col("logged") & ~F.col("compacted")).alias("offsets_whole"))
    )
    commits = (
        s["offsets"]
        .groupBy("run")
        .agg(F.every(F.col("op").isNotNull() & F.col("transactional")).alias("commits_named"))
    )
    return (
        s["runs"]
        .join(topic, on="run", how="left")
        .join(commits, on="run", how="left")
        .select(
            "run",
            "wall_ms",
            "whole",
            F.coalesce(F.col("offsets_whole") & F.col("commits_named"), F.lit(False)).alias("commits_whole"),
        )
    )


def _journals(s: Sources) -> DataFrame:
    """run, journal, role, intact (all that it ever held is here), unbroken (a torn last line aside)."""
    counted = s["ops"].groupBy("run", "journal").agg(F.count(F.lit(1)).alias("counted"))
    whole = (F.col("missing_lines") == 0) & (F.coalesce("counted", F.lit(0)) == F.col("ops"))
    return (
        s["journals"]
        .join(counted, on=["run", "journal"], how="left")
        .select(
            "missing_lines",
            "ops",
            F.coalesce("counted", F.lit(0)).alias("counted"),
            "run",
            "journal",
            "role",
            whole.alias("unbroken"),
            (whole & (F.col("torn_lines") == 0)).alias("intact"),
        )
    )


def _batches(s: Sources, tps: DataFrame) -> DataFrame:
    """The leader's data batches: run, tp, base_offset, last_offset, producer_id, epoch, transactional, fate;
    the marker that decided (marker_offset, marker_epoch, marker_ms); epoch_above (the highest epoch that
    its producer id had before, in this partition); abandoned (open, and the transaction log does not list it
    as under way, or has done so for too long).
    """
    by_producer = Window.partitionBy("run", "tp", "producer_id")
    above = by_producer.orderBy(F.desc("base_offset")).rowsBetween(Window.unboundedPreceding, -1)
    below = by_producer.orderBy("base_offset").rowsBetween(Window.unboundedPreceding, -1)
    marker = F.when(
        F.col("control") & F.col("marker").isNotNull(),
        F.struct(
            F.col("marker").alias("type"),
            F.col("base_offset").alias("offset"),
            F.col("epoch"),
            F.col("max_timestamp_ms").alias("ms"),
        ),
    )
    here = tps.where("logged and topic != '__transaction_state'").select("run", "tp")
    fated = (
        s["batches"]
        .where("leader")
        .join(F.broadcast(here), on=["run", "tp"], how="left_semi")
        .withColumn("decided", F.last(marker, ignorenulls=True).over(above))
        .withColumn("epoch_before", F.max("epoch").over(below))
        .where(~F.col("control"))
        .withColumn(
            "fate",
            F.when(~F.col("transactional"), F.lit(Fate.PLAIN.value)).otherwise(
                F.coalesce("decided.type", F.lit(Fate.OPEN.value))
            ),
        )
    )
    return (
        fated.join(F.broadcast(_last_states(s, tps)), on=["run", "producer_id"], how="left")
        .join(F.broadcast(_quiescence(s, tps)), on="run", how="left")
        .select(
            "run", "tp", "base_offset", "last_offset", "producer_id", "epoch", "transactional", "fate",
            F.when(F.col("transactional"), F.col("decided.offset")).alias("marker_offset"),
            F.when(F.col("transactional"), F.col("decided.epoch")).alias("marker_epoch"),
            F.when(F.col("transactional"), F.col("decided.ms")).alias("marker_ms"),
            "epoch_before",
            F.struct("transactional_id", "state", "state_epoch", "tps").alias("state"),
            (
                (F.col("fate") == Fate.OPEN.value)
                & F.coalesce("judgeable", F.lit(False))
                & ~F.coalesce(
                    F.col("state").isin(*PENDING_STATES)
                    & F.array_contains("tps", F.col("tp"))
                    & ~(
                        (F.col("state") == "Ongoing")
                        & F.coalesce(F.col("start_ms") + F.col("timeout_ms") + LATE_MS < F.col("end_ms"), F.lit(False))
                    ),
                    F.lit(False),
                )
            ).alias("abandoned"),
        )
    )  # fmt: skip


def _last_states(s: Sources, tps: DataFrame) -> DataFrame:
    """By run and producer id, the last word of the transaction log."""
    row = F.struct("log_offset", "transactional_id", "state", "epoch", "tps", "timeout_ms", "start_ms")
    return (
        s["transactions"]
        .groupBy("run", "producer_id")
        .agg(F.max_by(row, "log_offset").alias("last"))
        .select(
            "run", "producer_id", "last.transactional_id", "last.state",
            F.col("last.epoch").alias("state_epoch"), "last.tps", "last.timeout_ms", "last.start_ms",
        )
    )  # fmt: skip


def _quiescence(s: Sources, tps: DataFrame) -> DataFrame:
    """By run: judgeable (the run came to its end and the whole transaction log is here), end_ms (wall clock)."""
    whole = (
        tps.where(F.col("topic") == TRANSACTIONS_TOPIC)
        .groupBy("run")
        .agg(F.every("logged").alias("log_whole"))
    )
    told = s["transactions"].select("run").distinct().withColumn("told", F.lit(True))
    ended = s["records"].where("sentinel").groupBy("run").agg(F.max("timestamp_ms").alias("end_ms"))
    return (
        s["runs"]
        .join(whole, on="run", how="left")
        .join(told, on="run", how="left")
        .join(ended, on="run", how="left")
        .select(
            "run",
            "end_ms",
            (F.col("whole") & F.coalesce("log_whole", F.lit(False)) & F.coalesce("told", F.lit(False))).alias(
                "judgeable"
            ),
        )
    )


def _positions(s: Sources, tps: DataFrame, batches: DataFrame) -> DataFrame:
    """run, tp, offset; of the log: held, producer_id, epoch, fate, marker_offset, marker_ms, abandoned; of the
    final read: found, value, slot, inputs, digest, sentinel; acks [op, n, value]; polls [op, n, value, role,
    promised, return_ns]; commit (an offset commit: group, tp, committed, metadata, op, transactional); visible;
    and from `tps`: topic, internal, is_input, logged, covered (absence from the log counts), passed (the final
    read-committed reader read on beyond it).
    """
    log = batches.select(
        "run", "tp",
        F.explode(F.sequence("base_offset", "last_offset")).alias("offset"),
        F.struct("producer_id", "epoch", "transactional", "fate", "marker_offset", "marker_ms", "abandoned").alias("log"),
    )  # fmt: skip
    found = s["records"].select(
        "run", "tp", "offset", F.struct("value", "slot", "inputs", "digest", "sentinel").alias("record")
    )
    acks = (
        s["sends"]
        .where("acked and tp is not null and offset >= 0")
        .select("run", "tp", "offset", F.struct("op", "n", "value").alias("ack"))
    )
    polls = s["polls"].select(
        "run", "tp", "offset", F.struct("op", "n", "value", "role", "promised", "return_ns").alias("poll")
    )
    commits = s["offsets"].select(
        "run",
        F.col("log_tp").alias("tp"),
        F.col("log_offset").alias("offset"),
        F.struct("group", "tp", "committed", "metadata", "op", "transactional", "producer_id").alias(
            "commit"
        ),
    )
    united = log
    for part in (found, acks, polls, commits):
        united = united.unionByName(part, allowMissingColumns=True)
    finally_given = F.exists("polls", lambda poll: poll["role"] == Role.FINAL.value)
    return (
        united.groupBy("run", "tp", "offset")
        .agg(
            F.first("log", ignorenulls=True).alias("log"),
            F.first("record", ignorenulls=True).alias("record"),
            F.collect_list("ack").alias("acks"),
            F.collect_list("poll").alias("polls"),
            F.first("commit", ignorenulls=True).alias("commit"),
        )
        .join(F.broadcast(tps), on=["run", "tp"], how="inner")
        .select(
            "run", "tp", "offset", "topic", "internal", "is_input", "logged",
            F.col("log").isNotNull().alias("held"),
            "log.producer_id", "log.epoch", "log.fate", "log.marker_offset", "log.marker_ms", "log.abandoned",
            F.col("record").isNotNull().alias("found"),
            "record.value", "record.slot", "record.inputs", "record.digest",
            F.coalesce("record.sentinel", F.lit(False)).alias("sentinel"),
            "acks", "polls", "commit", "high_watermark",
            F.when(
                F.col("logged"),
                F.coalesce(F.col("log.fate").isin(*EFFECTIVE), F.lit(False))
                & F.coalesce(F.col("offset") < F.col("high_watermark"), F.lit(True)),
            ).otherwise(finally_given).alias("visible"),
            finally_given.alias("given"),
            (F.col("logged") & ~F.col("compacted") & (F.col("offset") >= F.col("log_start"))).alias("covered"),
            (~F.col("compacted") & F.coalesce((F.col("offset") >= F.col("rc_first")) & (F.col("offset") < F.col("rc_next")), F.lit(False))).alias("passed"),
            F.col("rc_end"),
        )
    )  # fmt: skip


def _writers(s: Sources) -> DataFrame:
    """Sends with what is known of their operation: run, value, send (a struct)."""
    journals = s["journals"].select("run", "journal", "role")
    ops = (
        s["ops"]
        .join(F.broadcast(journals), on=["run", "journal"], how="left")
        .select(
            "run",
            "op",
            "role",
            "outcome",
            "asked",
            F.col("transactional_id").isNotNull().alias("transactional"),
            "commit_ns",
        )
    )
    claiming = s["claims"].select("run", "op").distinct().withColumn("claims", F.lit(True))
    ops = ops.join(claiming, on=["run", "op"], how="left")
    return s["sends"].join(ops, on=["run", "op"], how="left").select(
        "run", "value",
        F.struct(
            "op", "n", "topic", "tp", "offset", "acked", "slot", "inputs", "digest",
            "role", "outcome", "transactional", "commit_ns", told().alias("told"),
            F.coalesce("claims", F.lit(False)).alias("claims"),
        ).alias("send"),
    )  # fmt: skip


def told() -> Column:
    """What an operation's client was told of its end: committed, aborted, or unknown."""
    return (
        F.when(
            (F.col("outcome") == Outcome.OK.value) & F.coalesce(F.col("asked") != "abort", F.lit(True)),
            "committed",
        )
        .when(F.col("outcome").isin(Outcome.OK.value, Outcome.FAIL.value), "aborted")
        .otherwise("unknown")
    )


def _values(s: Sources, writers: DataFrame, positions: DataFrame) -> DataFrame:
    """run, name (the value; `@tp/offset` for a record that bears none), value, send (null: nobody announced
    it), places [tp, offset, topic, fate, visible, slot, inputs, digest, covered], readers [op, n, tp, offset,
    role, promised].
    """
    places = positions.where("found and not sentinel and not internal").select(
        "run",
        F.coalesce("value", F.format_string("@%d/%d", "tp", "offset")).alias("name"),
        "value",
        F.struct("tp", "offset", "topic", "fate", "visible", "slot", "inputs", "digest").alias("place"),
    )
    sends = writers.select("run", F.col("value").alias("name"), "value", "send")
    readers = (
        s["polls"]
        .where("value is not null")
        .select(
            "run",
            F.col("value").alias("name"),
            "value",
            F.struct("op", "n", "tp", "offset", "role", "promised").alias("reader"),
        )
    )
    return (
        sends.unionByName(places, allowMissingColumns=True)
        .unionByName(readers, allowMissingColumns=True)
        .groupBy("run", "name")
        .agg(
            F.first("value", ignorenulls=True).alias("value"),
            F.first("send", ignorenulls=True).alias("send"),
            F.collect_list("place").alias("places"),
            F.collect_list("reader").alias("readers"),
        )
    )


def _operations(s: Sources, positions: DataFrame, values: DataFrame) -> DataFrame:
    """run, op, operation (its row in `ops`), told, transactional, settled (committed, aborted, open, none, unknown); records
    [n, value, tp, offset, acked, effect, abandoned, held, other (the position holds another value), covered,
    passed, given]; commits [tp, committed, offset, log_tp, effect, transactional]; claims [group, tp, first, next].
    """
    acked = positions.select("*", F.explode("acks").alias("ack")).select(
        "run", "ack.op",
        F.struct(
            "ack.n", "ack.value", "tp", "offset", F.lit(True).alias("acked"),
            effective(F.when(_same("value", "ack.value"), F.col("fate"))).alias("effect"),
            F.coalesce(F.col("found") & ~F.col("value").eqNullSafe(F.col("ack.value")), F.lit(False)).alias("other"),
            F.coalesce("abandoned", F.lit(False)).alias("abandoned"),
            F.when(F.col("logged"), F.col("held") & _same("value", "ack.value"))
            .otherwise(_same("value", "ack.value")).alias("held"),
            "logged", "covered", "passed", "visible",
            F.exists("polls", lambda p: (p["role"] == Role.FINAL.value) & F.coalesce(p["value"] == F.col("ack.value"), F.lit(True))).alias("given"),
        ).alias("record"),
    )  # fmt: skip
    found = (
        values.where("send is not null and not (send.acked and send.tp is not null and send.offset >= 0)")
        .select("run", "value", "send", "readers", F.explode("places").alias("place"))
        .select(
            "run", "send.op",
            F.struct(
                "send.n", "value", "place.tp", "place.offset", F.lit(False).alias("acked"),
                effective(F.col("place.fate")).alias("effect"), F.lit(False).alias("other"), F.lit(False).alias("abandoned"),
                F.lit(True).alias("held"), F.col("place.fate").isNotNull().alias("logged"),
                F.lit(False).alias("covered"), F.lit(False).alias("passed"), "place.visible",
                F.exists("readers", lambda r: r["role"] == Role.FINAL.value).alias("given"),
            ).alias("record"),
        )
    )  # fmt: skip
    commits = positions.where("commit is not null and commit.op is not null").select(
        "run", "commit.op",
        F.struct(
            "commit.tp", "commit.committed", F.col("tp").alias("log_tp"), F.col("offset").alias("log_offset"),
            effective(F.col("fate")).alias("effect"), "commit.transactional", F.coalesce("abandoned", F.lit(False)).alias("abandoned"),
        ).alias("commit"),
    )  # fmt: skip
    claims = s["claims"].select("run", "op", F.struct("group", "tp", "first", "next").alias("claim"))
    ops = s["ops"].select(
        "run", "op",
        F.struct("journal",  "f", "stage", "fenced", "group", "transactional_id", "outcome", "asked", "call_ns", "commit_ns", "return_ns", told().alias("told")).alias("operation"),
    )  # fmt: skip
    united = ops
    for part in (acked, found, commits, claims):
        united = united.unionByName(part, allowMissingColumns=True)
    grouped = united.groupBy("run", "op").agg(
        F.first("operation", ignorenulls=True).alias("operation"),
        F.array_sort(F.collect_list("record")).alias("records"),
        F.array_sort(F.collect_list("commit")).alias("commits"),
        F.array_sort(F.collect_list("claim")).alias("claims"),
    )
    return grouped.where("operation is not null").select(
        "*",
        F.col("operation.told").alias("told"),
        F.col("operation.transactional_id").isNotNull().alias("transactional"),
        _settled(),
    )


def _same(stored: str, sent: str) -> Column:
    """The position holds what was sent there, or a record of which nothing is known."""
    return F.coalesce(
        (~F.col("found") & F.col("held")) | (F.col("found") & F.col(stored).eqNullSafe(F.col(sent))),
        F.lit(False),
    )


def _settled() -> Column:
    """How an operation ended: what its client was told, and what the log (else the final read) says if it
    was told nothing. `none`: it has left nothing in the logs.
    """
    fates = F.concat(
        F.transform("records", lambda r: r["effect"]), F.transform("commits", lambda c: c["effect"])
    )
    logged = F.forall("records", lambda r: r["logged"])
    return (
        F.when(F.col("operation.told") != "unknown", F.col("operation.told"))
        .when(F.array_contains(fates, Fate.COMMIT.value), "committed")
        .when(F.array_contains(fates, Fate.ABORT.value), "aborted")
        .when(F.array_contains(fates, Fate.OPEN.value), "open")
        .when(F.exists("records", lambda r: ~r["logged"] & r["given"]), "committed")
        .when((F.size(fates) == 0) & logged, "none")
        .otherwise("unknown")
        .alias("settled")
    )


def _groups(s: Sources, tps: DataFrame, positions: DataFrame, operations: DataFrame) -> DataFrame:
    """run, group, tp; first (the lowest offset at which a member began), final (the last committed offset: by
    position in the log where there is one, else the highest that a committed operation claimed).
    """
    began = (
        s["assignments"]
        .where("gained and offset >= 0")
        .select("run", "group", "tp", F.col("offset").alias("first"))
    )
    claimed = operations.select(
        "run", "settled", F.explode("claims").alias("claim")
    ).select(
        "run", "claim.group", "claim.tp", "claim.first",
        F.when(F.col("settled") == "committed", F.col("claim.next")).alias("next"),
    )  # fmt: skip
    commits = positions.where("commit is not null").where(F.col("fate").isin(*EFFECTIVE)).select(
        "run", "commit.group", "commit.tp",
        F.when(F.col("commit.committed").isNotNull(), F.struct("offset", "commit.committed")).alias("commit"),
    )  # fmt: skip
    logged = tps.where(F.col("topic") == OFFSETS_TOPIC).groupBy("run").agg(F.some("logged").alias("logged"))
    return (
        began.unionByName(claimed, allowMissingColumns=True)
        .unionByName(commits, allowMissingColumns=True)
        .groupBy("run", "group", "tp")
        .agg(
            F.min("first").alias("first"),
            F.max("commit").alias("commit"),
            F.max("next").alias("next"),
        )
        .join(F.broadcast(logged), on="run", how="left")
        .select(
            "run", "group", "tp", "first",
            F.when(F.coalesce("logged", F.lit(False)), F.col("commit.committed")).otherwise(F.col("next")).alias("final"),
        )
    )  # fmt: skip


def _inputs(
    s: Sources, tps: DataFrame, positions: DataFrame, values: DataFrame, operations: DataFrame
) -> DataFrame:
    """run, tp, offset, in_topic; expected [group, stage, slot, topic, digest]; outputs [slot, topic, tp, offset, name, op, visible,
    digest, sole (it names no other input), claims (its operation claims inputs)]; claims [op, group, settled,
    transactional]; judgeable (absence of the input may be judged); fate, visible: of the input.
    """
    here = positions.where("is_input and not sentinel and (held or found or given)").select(
        "run", "tp", "offset",
        F.struct("visible", "fate").alias("here"),
    )  # fmt: skip
    expected = s["expected"].select(
        "run", "tp", "offset", F.struct("group", "stage", "slot", "topic", "digest").alias("expected")
    )
    outputs = (
        values.where("size(places) > 0 or size(send.inputs) > 0")
        .select("run", "name", "send", F.explode_outer("places").alias("place"))
        .select("run", "name", "send", "place", F.coalesce("place.inputs", "send.inputs").alias("inputs"))
        .select("run", "name", "send", "place", F.size("inputs").alias("many"), F.explode("inputs").alias("input"))
        .select(
            "run", "input.tp", "input.offset",
            F.struct(
                F.coalesce("place.slot", "send.slot").alias("slot"),
                F.coalesce("place.topic", "send.topic").alias("topic"),
                "place.tp", "place.offset", "name", "send.op",
                F.coalesce("place.visible", F.lit(False)).alias("visible"),
                "place.digest",
                (F.col("many") == 1).alias("sole"),
                F.coalesce("send.claims", F.lit(False)).alias("claims"),
            ).alias("output"),
        )
    )  # fmt: skip
    claims = (
        operations.select("run", "op", "settled", "transactional", F.explode("claims").alias("claim"))
        .where("claim.next > claim.first")
        .select(
            "run", "claim.tp",
            F.explode(F.sequence("claim.first", F.col("claim.next") - 1)).alias("offset"),
            F.struct("op", "claim.group", "settled", "transactional").alias("claim"),
        )
    )  # fmt: skip
    united = here
    for part in (expected, outputs, claims):
        united = united.unionByName(part, allowMissingColumns=True)
    edges = tps.select(
        "run",
        "tp",
        F.col("topic").alias("in_topic"),
        "logged",
        "compacted",
        "log_start",
        "rc_first",
        "rc_next",
        "rc_end",
        "ru_end",
    )
    return (
        united.groupBy("run", "tp", "offset")
        .agg(
            F.first("here", ignorenulls=True).alias("here"),
            F.collect_list("expected").alias("expected"),
            F.array_sort(F.collect_list("output")).alias("outputs"),
            F.array_sort(F.collect_list("claim")).alias("claims"),
        )
        .join(F.broadcast(edges), on=["run", "tp"], how="left")
        .select(
            "run", "tp", "offset", "in_topic",
            F.coalesce("here.visible", F.lit(False)).alias("visible"),
            "here.fate",
            F.coalesce(
                ~F.col("compacted")
                & F.when(F.col("logged"), F.col("ru_end") & (F.col("offset") >= F.col("log_start")))
                .otherwise((F.col("offset") >= F.col("rc_first")) & (F.col("offset") < F.col("rc_next"))),
                F.lit(False),
            ).alias("judgeable"),
            "expected", "outputs", "claims",
        )
    )  # fmt: skip
