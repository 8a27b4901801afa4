"""Make the tables `inputs`, `groups` and `claimed_ranges`: what inputs must lead to, what they led to, and how far
groups read.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.spark.frames import broadcast, group
from checkers.stored.sources import Sources, any_without_journals

BY_GROUP = "partition by run, group, tp"

_SAME = "{0}.output_name = e.output_name and {0}.topic = e.topic"
VISIBLE_OUTPUTS = f"filter(outputs, o -> o.visible and coalesce({_SAME.format('o')}, false))"
"""The visible outputs that have the output name and topic of the expected output `e`."""
_SEEN = f"array_distinct(transform({VISIBLE_OUTPUTS}, o -> struct(o.name as name, o.digest as digest)))"
_DUE = f"filter(expected, x -> {_SAME.format('x')})"
_EARLIER = f"filter(slice(expected, 1, i + 1), x -> {_SAME.format('x')})"
_BY_COUNT = f"size({_EARLIER}) > size({_SEEN})"
_BY_DIGEST = f"""size(filter({_EARLIER}, x -> x.digest = e.digest)) > size(filter({_SEEN}, o -> o.digest <=> e.digest))
    and size(filter({_SEEN}, (o, n) -> not exists({_DUE}, x -> x.digest <=> o.digest)
        or size(filter(slice({_SEEN}, 1, n + 1), p -> p.digest <=> o.digest))
        <= size(filter({_DUE}, x -> x.digest <=> o.digest)))) < size({_DUE})"""
MISSING_OUTPUTS = f"""filter(expected, (e, i) -> if(size({_DUE}) = 1, size({_SEEN}) = 0,
    if(exists({_DUE}, x -> x.digest is null), {_BY_COUNT}, {_BY_DIGEST})))"""
"""The expected outputs of an input that are missing.

An input may have to lead to several outputs of one name. They are compared by their digests: each expected output needs
a visible output of its own. A visible output that has an unexpected digest takes the place of one missing output,
because `corrupt` finds it. A repeated output takes the place of none. If a digest is not known, only the number of
outputs is compared.
"""
ADDING = "visible and size(adds) > 0"
"""The input is visible and must add to a sum."""


def make_groups(
    s: Sources,
    runs: DataFrame,
    tps: DataFrame,
    log_entries: DataFrame,
    operations: DataFrame,
) -> DataFrame:
    """Make the table `groups`: where each group began to read a partition, and how far it committed.

    For a stage without journals that commits for no group, the column `group` holds `STAGE_PREFIX` and the name of the
    stage. Its inputs up to the last one that led to a visible output count as processed.

    Columns:
        run, group, tp
        first: the lowest offset at which a member began; 0 for a stage without journals, because it starts before its
            first input, and for a partition that its topic got during the run; null: not known
        final: the last committed offset, from the log of offset commits, or, if that is not stored, from the claims of
            committed operations. For a stage without a group: the offset after the last input that led to a visible
            output. If the group did not read a partition that its topic got during the run, though it had time enough:
            the end of the partition. null: none
        passed_over: the group did not read this partition at all
    """
    united = _steps(s, tps, log_entries, operations).unionByName(
        _added_partitions(s, runs, tps), allowMissingColumns=True
    )
    return (
        united.groupBy("run", "group", "tp")
        .agg(
            F.expr("min(first) as first"),
            F.expr("max(commit) as commit"),
            F.expr("max(next) as next"),
            F.expr("max(led) as led"),
            F.expr("max(end) as end"),
            F.expr("coalesce(bool_or(was_read), false) as was_read"),
        )
        .join(broadcast(runs.select("run", "commits_logged")), on="run", how="left")
        .selectExpr(
            *("run", "group", "tp", "first", "if(was_read, null, end) as end"),
            "coalesce(led, if(commits_logged, commit.committed, next)) as final",
        )
        .selectExpr(
            *("run", "group", "tp", "first", "coalesce(final, end) as final"),
            "final is null and end is not null as passed_over",
        )
    )


def _steps(s: Sources, tps: DataFrame, log_entries: DataFrame, operations: DataFrame) -> DataFrame:
    """Select each assignment, claim and offset commit of a group.

    Columns:
        run, group, tp
        first: where the group began to read; null: not known
        next: the offset up to which a committed operation claimed inputs
        commit: an offset commit that took effect [offset, committed]
        led: see `_add_inputs_without_journals`
        was_read: the group has read the partition, or was assigned it
    """
    began = (
        s["assignments"]
        .where("gained")
        .selectExpr("run", "group", "tp", "offset as first", "true as was_read")
    )
    claimed = operations.selectExpr("run", "settled", "inline(claims)").selectExpr(
        "run", "group", "tp", "first", "if(settled = 'committed', next, null) as next", "true as was_read"
    )
    commits = log_entries.where("commit is not null and fate in ('commit', 'plain')").selectExpr(
        "run",
        "commit.group",
        "commit.tp",
        "if(commit.committed is not null, struct(offset, commit.committed as committed), null) as commit",
    )
    united = began.unionByName(claimed, allowMissingColumns=True).unionByName(
        commits, allowMissingColumns=True
    )
    if any_without_journals(s):
        return _add_inputs_without_journals(united, s, tps, log_entries)
    return united.withColumn("led", F.expr("cast(null as bigint)"))


def _added_partitions(s: Sources, runs: DataFrame, tps: DataFrame) -> DataFrame:
    """Select the partitions that the input topics got during the run, for each group that reads them.

    Columns:
        run, group, tp, first (always 0)
        end: the end of the partition, if the group did not read it in the time that it had; null: it did
    """
    skipped = runs.selectExpr("run", "inline(passed_over)")
    groups = s["stages"].where("group is not null").selectExpr("run", "group", "in_topic as topic").distinct()
    return (
        tps.where("added")
        .selectExpr("run", "tp", "topic", "partition", "coalesce(log_end, rc_next) as end")
        .join(broadcast(groups), on=["run", "topic"], how="inner")
        .join(
            broadcast(skipped.selectExpr("*", "true as skipped")),
            on=["run", "group", "topic", "partition"],
            how="left",
        )
        .selectExpr("run", "group", "tp", "0L as first", "if(skipped, end, null) as end")
    )


STAGE_PREFIX = "stage "
"""Prefix of the name that replaces the group of a stage without journals that commits for no group."""


def _add_inputs_without_journals(
    united: DataFrame, s: Sources, tps: DataFrame, log_entries: DataFrame
) -> DataFrame:
    """Add the start of each stage without journals, and the progress of those that commit for no group."""
    read = _without_journals(s, tps)
    starts = read.selectExpr("run", "group", "tp", "0L as first")
    return united.unionByName(starts, allowMissingColumns=True).unionByName(
        _progress_without_group(s, log_entries, read), allowMissingColumns=True
    )


def _without_journals(s: Sources, tps: DataFrame) -> DataFrame:
    """Select the partitions that each stage without journals reads: run, stage, group, tp."""
    stages = s["stages"].where("journaled = false")
    named = stages.selectExpr(
        "run", "stage", f"coalesce(group, concat('{STAGE_PREFIX}', stage)) as group", "in_topic as topic"
    )
    return (
        tps.select("run", "tp", "topic")
        .join(broadcast(named), on=["run", "topic"])
        .select("run", "stage", "group", "tp")
    )


def _progress_without_group(s: Sources, log_entries: DataFrame, without_journals: DataFrame) -> DataFrame:
    """For each stage that commits for no group, return the offset after its last input that led to a visible output:
    run, group, tp, led.
    """
    makes = s["expected"].where("adds is null").select("run", "stage", "topic").distinct()
    without_group = without_journals.where(f"group = concat('{STAGE_PREFIX}', stage)")
    return (
        log_entries.where("visible and size(inputs) > 0")
        .selectExpr("run", "topic", "inline(inputs)")
        .join(broadcast(makes), on=["run", "topic"])
        .groupBy("run", "stage", "tp")
        .agg(F.expr("max(offset) + 1 as led"))
        .join(broadcast(without_group), on=["run", "stage", "tp"])
        .select("run", "group", "tp", "led")
    )


def make_claimed_ranges(operations: DataFrame, reader_steps: DataFrame) -> DataFrame:
    """Make the table `claimed_ranges`: the input ranges that operations claimed, and the starts of readers.

    A row is a range or a start. A range goes from the first input of an operation to the offset that it committed. A
    start is the first record that a worker polled after it gained the partition (see `checkers.stored.reader_steps`).

    Columns:
        run, group, tp, op
        first: the first offset of the range, or the offset of the start
        next: of a range: the offset that was committed; null for a start
        n, gained_ns: of a start: the delivery, and when the partition was gained
        time_ns: when the operation returned, or when the partition was gained
        completed: of a range: the operation returned, and its client knows that it is committed. If the operation was
            transactional and the log of offset commits is stored, that log must also have its offset commit
        effective: of a range: its offset commit is part of a transaction with fate commit
        stale: [next, op] of the range with the highest end among those that were completed before `time_ns`; null: none
        overlaps: [next, op, first] of the effective range with the highest end among those that begin before this one;
            null: none
    """
    own_commits = "filter(commits, c -> c.tp = claim.tp and c.transactional)"
    commits = (
        operations.selectExpr(
            *(
                "run",
                "op",
                "reported_end",
                "operation",
                "commits",
                "commits_logged",
                "explode(claims) as claim",
            )
        )
        .selectExpr("*", f"{own_commits} as own")
        .selectExpr(
            *("run", "claim.group", "claim.tp", "op", "claim.first", "claim.next"),
            "operation.return_ns as time_ns",
            "reported_end = 'committed' and operation.return_ns is not null "
            "and (size(own) > 0 or operation.f = 'commit-offsets' or not commits_logged) as completed",
            "exists(own, c -> coalesce(c.effect = 'commit', false)) as effective",
        )
    )
    starts = reader_steps.where("move = 'start'").selectExpr(
        *("run", "group", "tp", "op", "n", "offset as first", "gained_ns", "gained_ns as time_ns"),
        *("false as completed", "false as effective"),
    )
    sooner = f"({BY_GROUP} order by time_ns range between unbounded preceding and 1 preceding)"
    lower = f"({BY_GROUP} order by first, next, op rows between unbounded preceding and 1 preceding)"
    return commits.unionByName(starts, allowMissingColumns=True).selectExpr(
        "*",
        f"max(if(completed, struct(next, op), null)) over {sooner} as stale",
        f"max(if(effective, struct(next, op, first), null)) over {lower} as overlaps",
    )


def make_inputs(
    s: Sources,
    tps: DataFrame,
    log_entries: DataFrame,
    attempts: DataFrame,
    operations: DataFrame,
) -> DataFrame:
    """Make the table `inputs`: for each input, the outputs that it must lead to, and those that it led to.

    Columns:
        run, tp, offset, in_topic
        each, owing, unasked, allows_duplicates: see `checkers.stored.partition_tables.TPS`
        visible, fate: of the record that is the input
        judgeable: if the input is absent, that proves something, because the stored log or the final read covers its
            position, or because the run has no such partition
        expected: array of the outputs that it must lead to [output_name, topic, group, stage, digest,
            intermediate_topic (a topic between the input and the stage, whose record the stage reads; null: the stage
            reads the input itself)]
        adds: array of the amounts that it must add to sums [group, topic, key, adds]
        outputs: array of the outputs that name it [output_name, topic, tp, offset, name, op, visible, digest, sole (the
            output names no other input), claims (its operation claims inputs)]
        claims: array of the operations that claim it [op, group, settled, transactional, writes]
    """
    united = log_entries.where("is_input and not sentinel").selectExpr(
        "run", "tp", "offset", "struct(visible, fate) as here"
    )
    for part in (_expected(s), _outputs(attempts), _claims(operations)):
        united = united.unionByName(part, allowMissingColumns=True)
    edges = tps.selectExpr(
        *("run", "tp", "topic as in_topic", "each", "owing", "unasked", "allows_duplicates"),
        *("logged", "compacted", "log_start", "rc_first", "rc_next"),
    )
    # An absence proves something only where the position is in the stored log, or in the range of the final read.
    in_reach = "if(logged, offset >= log_start, offset >= rc_first and offset < rc_next)"
    aggregates = (
        "any_value(here, true) as here",
        "sort_array(collect_list(expected)) as expected",
        "collect_list(add) as adds",
        "sort_array(collect_list(output)) as outputs",
        "sort_array(collect_list(claim)) as claims",
    )
    return (
        group(united, ("run", "tp", "offset"), aggregates)
        .join(broadcast(edges), on=["run", "tp"], how="left")
        .selectExpr(
            *("run", "tp", "offset", "in_topic", "each", "owing", "unasked", "allows_duplicates"),
            "coalesce(here.visible, false) as visible",
            "here.fate",
            f"in_topic is null or coalesce(not compacted and {in_reach}, false) as judgeable",
            *("expected", "adds", "outputs", "claims"),
        )
    )


def _expected(s: Sources) -> DataFrame:
    """Select the outputs that each input must lead to, and the amounts that it must add to sums."""
    return (_expected_with_group_names(s) if any_without_journals(s) else s["expected"]).selectExpr(
        *("run", "tp", "offset"),
        "if(adds is null, struct(output_name, topic, group, stage, digest, intermediate_topic), null) as expected",
        "if(adds is not null, struct(group, topic, key, adds), null) as add",
    )


def _expected_with_group_names(s: Sources) -> DataFrame:
    """Fill in the group of each stage without journals and without a group: `STAGE_PREFIX` and its name.

    If the run stopped the stage before it had read all inputs, the group stays null. Such a stage may read inputs in
    any order, so its progress is not known.
    """
    drained = broadcast(s["runs"].where("drained").select("run"))
    followed = s["stages"].where("journaled = false and group is null").join(drained, on="run")
    followed = followed.select("run", "stage").distinct()
    named = followed.selectExpr("run", "stage", f"concat('{STAGE_PREFIX}', stage) as stage_group")
    rows = s["expected"].join(broadcast(named), on=["run", "stage"], how="left")
    return rows.withColumn("group", F.expr("coalesce(group, stage_group)"))


def _outputs(attempts: DataFrame) -> DataFrame:
    """Select the outputs that name each input."""
    return (
        attempts.selectExpr("run", "name", "send", "explode_outer(positions) as position")
        .selectExpr("*", "coalesce(position.inputs, send.inputs) as inputs")
        .selectExpr("run", "name", "send", "position", "size(inputs) as many", "explode(inputs) as input")
        .selectExpr(
            "run",
            "input.tp",
            "input.offset",
            """struct(
                coalesce(position.output_name, send.output_name) as output_name,
                coalesce(position.topic, send.topic) as topic,
                position.tp as tp, position.offset as offset, name as name, send.op as op,
                coalesce(position.visible, false) as visible,
                position.digest as digest,
                many = 1 as sole,
                coalesce(send.claims, false) as claims
            ) as output""",
        )
    )


def _claims(operations: DataFrame) -> DataFrame:
    """Select the operations that claim each input."""
    row = "struct(op as op, claim.group as group, settled as settled, transactional as transactional, writes as writes)"
    return (
        operations.selectExpr(
            *(
                "run",
                "op",
                "settled",
                "transactional",
                "size(records) > 0 as writes",
                "explode(claims) as claim",
            )
        )
        .where("claim.next > claim.first")
        .selectExpr(
            *(
                "run",
                "claim.tp",
                "explode(sequence(claim.first, claim.next - 1)) as offset",
                f"{row} as claim",
            )
        )
    )
