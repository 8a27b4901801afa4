"""By input: what it must lead to, what it led to, and how far its group went."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.spark.joins import broadcast, group
from checkers.stored.sources import Sources, any_unjournaled

OFFSETS_TOPIC = "__consumer_offsets"
BY_GROUP = "partition by run, group, tp"


def make_groups(
    s: Sources,
    runs: DataFrame,
    tps: DataFrame,
    positions: DataFrame,
    operations: DataFrame,
) -> DataFrame:
    """run, group, tp; first (the lowest offset at which a member began), final (the last committed offset: by
    position in the log where there is one, else the highest that a committed operation claimed).

    Of a stage without journals the first is 0: it is up before its first input. One that commits for no group goes by
    its name (`FOLLOWED`), and is past every input below the last that led to a visible output.
    """
    began = (
        s["assignments"]
        .where("gained and offset is not null")
        .selectExpr("run", "group", "tp", "offset as first")
    )
    claimed = operations.selectExpr("run", "settled", "inline(claims)").selectExpr(
        "run", "group", "tp", "first", "if(settled = 'committed', next, null) as next"
    )
    commits = positions.where("commit is not null and fate in ('commit', 'plain')").selectExpr(
        "run",
        "commit.group",
        "commit.tp",
        "if(commit.committed is not null, struct(offset, commit.committed as committed), null) as commit",
    )
    united = began.unionByName(claimed, allowMissingColumns=True).unionByName(
        commits, allowMissingColumns=True
    )
    if any_unjournaled(s):
        united = _with_unjournaled(united, s, tps, positions)
    else:
        united = united.withColumn("led", F.expr("cast(null as bigint)"))
    return (
        united.groupBy("run", "group", "tp")
        .agg(
            F.expr("min(first) as first"),
            F.expr("max(commit) as commit"),
            F.expr("max(next) as next"),
            F.expr("max(led) as led"),
        )
        .join(broadcast(runs.select("run", "commits_logged")), on="run", how="left")
        .selectExpr(
            *("run", "group", "tp", "first"),
            "coalesce(led, if(commits_logged, commit.committed, next)) as final",
        )
    )


FOLLOWED = "stage "
"""Begins the name under which a stage is followed that keeps no journals and commits for no group."""


def _with_unjournaled(united: DataFrame, s: Sources, tps: DataFrame, positions: DataFrame) -> DataFrame:
    """With where stages without journals began, and how far those are that commit for no group."""
    read = _unjournaled(s, tps)
    begun = read.selectExpr("run", "group", "tp", "0L as first")
    return united.unionByName(begun, allowMissingColumns=True).unionByName(
        _followed(s, positions, read), allowMissingColumns=True
    )


def _unjournaled(s: Sources, tps: DataFrame) -> DataFrame:
    """run, stage, group, tp: what each stage without journals reads."""
    stages = s["stages"].where("journaled = false")
    named = stages.selectExpr(
        "run", "stage", f"coalesce(group, concat('{FOLLOWED}', stage)) as group", "in_topic as topic"
    )
    return (
        tps.select("run", "tp", "topic")
        .join(broadcast(named), on=["run", "topic"])
        .select("run", "stage", "group", "tp")
    )


def _followed(s: Sources, positions: DataFrame, unjournaled: DataFrame) -> DataFrame:
    """How far a stage is that commits for no group: run, group, tp, led."""
    makes = s["expected"].where("adds is null").select("run", "stage", "topic").distinct()
    followed = unjournaled.where(f"group = concat('{FOLLOWED}', stage)")
    return (
        positions.where("visible and size(inputs) > 0")
        .selectExpr("run", "topic", "inline(inputs)")
        .join(broadcast(makes), on=["run", "topic"])
        .groupBy("run", "stage", "tp")
        .agg(F.expr("max(offset) + 1 as led"))
        .join(broadcast(followed), on=["run", "stage", "tp"])
        .select("run", "group", "tp", "led")
    )


def make_claimed_ranges(operations: DataFrame, moves: DataFrame) -> DataFrame:
    """By run, group and tp, what the group's commits say of its starts and of each other.

    A range, from the first input of an operation to the offset that it committed: op, first, next; effective
    (as part of a transaction, with fate commit); overlaps [next, op, first]: of the effective ones that begin
    before it, the one that ends last. A start (see `checkers.stored.reader_steps`): op, n, first (the offset),
    gained_ns; stale [next, op]: the highest offset of which a commit had completed ok before the
    partition was gained; one that was part of a transaction stands in the log too, where that is here.
    """
    own = "filter(commits, c -> c.tp = claim.tp and c.transactional)"
    commits = (
        operations.selectExpr(
            *("run", "op", "told", "operation", "commits", "commits_logged", "explode(claims) as claim")
        )
        .selectExpr("*", f"{own} as own")
        .selectExpr(
            *("run", "claim.group", "claim.tp", "op", "claim.first", "claim.next"),
            "operation.return_ns as time_ns",
            "told = 'committed' and operation.return_ns is not null "
            "and (size(own) > 0 or operation.f = 'commit-offsets' or not commits_logged) as completed",
            "exists(own, c -> coalesce(c.effect = 'commit', false)) as effective",
        )
    )
    starts = moves.where("move = 'start'").selectExpr(
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
    positions: DataFrame,
    values: DataFrame,
    operations: DataFrame,
) -> DataFrame:
    """run, tp, offset, in_topic; each, owing, unasked, lenient (see `checkers.stored.partitions.rows_of_tps`); expected
    [output name, topic, group, stage, digest, via (the topic whose record, made of the input, the stage takes; null:
    the input itself)]; adds [group, topic, key, adds]; outputs [output name, topic, tp, offset, name, op, visible,
    digest, sole (it names no other input), claims (its operation claims inputs)]; claims [op, group, settled,
    transactional, writes]; judgeable (absence of the input may be judged); fate, visible: of the input.
    """
    united = positions.where("is_input and not sentinel").selectExpr(
        "run", "tp", "offset", "struct(visible, fate) as here"
    )
    for part in (_expected(s), _outputs(values), _claims(operations)):
        united = united.unionByName(part, allowMissingColumns=True)
    edges = tps.selectExpr(
        "run",
        "tp",
        "topic as in_topic",
        "each",
        "owing",
        "unasked",
        "allows_duplicates",
        "logged",
        "compacted",
        "log_start",
        "rc_first",
        "rc_next",
    )
    # Absence of an input may be judged where its place is in the log that is here, or was read.
    in_reach = "if(logged, offset >= log_start, offset >= rc_first and offset < rc_next)"
    told = (
        "any_value(here, true) as here",
        "sort_array(collect_list(expected)) as expected",
        "collect_list(add) as adds",
        "sort_array(collect_list(output)) as outputs",
        "sort_array(collect_list(claim)) as claims",
    )
    return (
        group(united, ("run", "tp", "offset"), told)
        .join(broadcast(edges), on=["run", "tp"], how="left")
        .selectExpr(
            *("run", "tp", "offset", "in_topic", "each", "owing", "unasked", "allows_duplicates"),
            "coalesce(here.visible, false) as visible",
            "here.fate",
            f"coalesce(not compacted and {in_reach}, false) as judgeable",
            *("expected", "adds", "outputs", "claims"),
        )
    )


def _expected(s: Sources) -> DataFrame:
    """What each input must lead to: an output, or something added to a sum."""
    return (_named(s) if any_unjournaled(s) else s["expected"]).selectExpr(
        *("run", "tp", "offset"),
        "if(adds is null, struct(output_name, topic, group, stage, digest, intermediate_topic), null) as expected",
        "if(adds is not null, struct(group, topic, key, adds), null) as add",
    )


def _named(s: Sources) -> DataFrame:
    """`expected`, with a name for each stage that commits for no group and keeps no journals. Of one that was stopped
    with inputs left nobody knows how far it was: it may take them in any order.
    """
    drained = broadcast(s["runs"].where("drained").select("run"))
    followed = s["stages"].where("journaled = false and group is null").join(drained, on="run")
    followed = followed.select("run", "stage").distinct()
    named = followed.selectExpr("run", "stage", f"concat('{FOLLOWED}', stage) as goes_by")
    rows = s["expected"].join(broadcast(named), on=["run", "stage"], how="left")
    return rows.withColumn("group", F.expr("coalesce(group, goes_by)"))


def _outputs(values: DataFrame) -> DataFrame:
    """By input, the outputs that name it."""
    return (
        values.selectExpr("run", "name", "send", "explode_outer(places) as place")
        .selectExpr("*", "coalesce(place.inputs, send.inputs) as inputs")
        .selectExpr("run", "name", "send", "place", "size(inputs) as many", "explode(inputs) as input")
        .selectExpr(
            "run",
            "input.tp",
            "input.offset",
            """struct(
                coalesce(place.output_name, send.output_name) as output_name,
                coalesce(place.topic, send.topic) as topic,
                place.tp as tp, place.offset as offset, name as name, send.op as op,
                coalesce(place.visible, false) as visible,
                place.digest as digest,
                many = 1 as sole,
                coalesce(send.claims, false) as claims
            ) as output""",
        )
    )


def _claims(operations: DataFrame) -> DataFrame:
    """By input, the operations that claim to have gone beyond it."""
    of = "struct(op as op, claim.group as group, settled as settled, transactional as transactional, writes as writes)"
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
            *("run", "claim.tp", "explode(sequence(claim.first, claim.next - 1)) as offset", f"{of} as claim")
        )
    )
