"""By operation: what its client was told, and what became of its records and its offsets."""

from pyspark.sql import DataFrame

from checkers.spark.joins import broadcast, group
from checkers.stored.partitions import effective
from checkers.stored.sources import Sources
from harness.model.vocabulary import Fate, Outcome

REPORTED_END = f"""case when outcome = '{Outcome.OK.value}' and coalesce(asked != 'abort', true) then 'committed'
    when outcome in ('{Outcome.OK.value}', '{Outcome.FAIL.value}') then 'aborted' else 'unknown' end"""
"""Of a row of `ops`: what its client was told of its end."""
FATES = "concat(records.effect, commits.effect)"
SETTLED = f"""case when operation.told != 'unknown' then operation.told
    when array_contains({FATES}, '{Fate.COMMIT.value}') then 'committed'
    when array_contains({FATES}, '{Fate.ABORT.value}') then 'aborted'
    when array_contains({FATES}, '{Fate.OPEN.value}') then 'open'
    when exists(records, r -> not r.logged and r.given) then 'committed'
    when size({FATES}) = 0 and (size(claims) = 0 or commits_logged) then 'none'
    else 'unknown' end"""
"""How an operation ended: what its client was told, and what the log (else the final read) says if it was told
nothing. `none`: it has left nothing where all that it may have left would be found: its records in the final read,
its offset commits in their log.
"""


CLAIMS_WITHOUT_COMMIT = """filter(claims, c -> array_contains(named_groups, c.group)
    and not exists(commits, m -> m.tp = c.tp and m.group = c.group))"""
"""The claims of an operation whose offset commit is gone. Groups whose commits cannot be missed have none."""
OF_RUN = (
    "commits_logged",
    "named_groups",
    "outside_groups",
    "healed_ns",
    "longest_ms",
    "session_ms",
    "wall_ms",
)
"""What rules over operations need to know of their run."""


def make_operations(
    s: Sources, runs: DataFrame, journals: DataFrame, positions: DataFrame, values: DataFrame
) -> DataFrame:
    """run, op, operation (its row in `ops`), told (committed, aborted, or unknown), transactional, settled
    (committed, aborted, open, none, unknown), sound (its journal is unbroken); twice (the table ops has it twice);
    of its run: the columns OF_RUN; records [n, value, tp, offset, acked, effect, abandoned, held, other (the position
    holds another value), covered, passed, given, plain (it is in no transaction), marker_offset and marker_ms (of an
    acknowledged one)]; commits [tp, committed, offset, log_tp, effect, transactional, group, marker_offset, marker_ms];
    claims [group, tp, first, next]. A record without an acknowledged position has the position at which it was found:
    it is held, and neither covered nor passed.
    """
    united = _operations(s)
    for part in (_acked(positions), _found(values), _commits(positions), _claims(s)):
        united = united.unionByName(part, allowMissingColumns=True)
    told = (
        "any_value(operation, true) as operation",
        "count(operation) > 1 as twice",
        "sort_array(collect_list(record)) as records",
        "sort_array(collect_list(commit)) as commits",
        "sort_array(collect_list(claim)) as claims",
    )
    sound = journals.where("unbroken").select("run", "journal").distinct().selectExpr("*", "true as unbroken")
    return (
        group(united, ("run", "op"), told)
        .where("operation is not null")
        .selectExpr("*", "operation.journal")
        .join(broadcast(runs.select("run", *OF_RUN)), on="run", how="left")
        .join(broadcast(sound), on=["run", "journal"], how="left")
        .selectExpr(
            *("run", "op", "operation", "twice", "records", "commits", "claims", *OF_RUN),
            "coalesce(unbroken, false) as sound",
            "operation.told as told",
            "operation.transactional_id is not null as transactional",
            f"{SETTLED} as settled",
        )
    )


def _operations(s: Sources) -> DataFrame:
    """What its client told of each."""
    columns = "journal, f, stage, fenced, group, transactional_id, txn, outcome, asked, call_ns, commit_ns, return_ns"
    return s["ops"].selectExpr("run", "op", f"struct({columns}, {REPORTED_END} as told) as operation")


def _claims(s: Sources) -> DataFrame:
    """The inputs that it claims to have gone beyond."""
    return s["claims"].selectExpr("run", "op", "struct(group, tp, first, next) as claim")


def _acked(positions: DataFrame) -> DataFrame:
    """Its records that were acknowledged, each in the place that its client was told."""
    # The position holds what was sent there, or a record of which nothing is known.
    fits = "(not found or value <=> ack.value)"
    return positions.selectExpr("*", "explode(acks) as ack").selectExpr(
        "run",
        "ack.op",
        f"""struct(
            ack.n as n, ack.value as value, tp as tp, offset as offset,
            true as acked,
            {effective(f"if({fits}, fate, null)")} as effect,
            not {fits} as other,
            coalesce(abandoned, false) as abandoned,
            held and {fits} as held,
            logged as logged, covered as covered, passed as passed, visible as visible,
            given and {fits} as given,
            coalesce({fits} and fate = '{Fate.PLAIN.value}', false) as plain,
            if({fits}, marker_offset, null) as marker_offset, if({fits}, marker_ms, null) as marker_ms
        ) as record""",
    )


def _found(values: DataFrame) -> DataFrame:
    """Its records without such a place, each where it was found."""
    return (
        values.where("send is not null and send.offset is null")
        .selectExpr("run", "value", "send", "explode(places) as place")
        .selectExpr(
            "run",
            "send.op",
            f"""struct(
                send.n as n, value as value, place.tp as tp, place.offset as offset,
                false as acked,
                {effective("place.fate")} as effect,
                false as other,
                false as abandoned,
                true as held,
                place.fate is not null as logged, false as covered, false as passed, place.visible as visible,
                place.given as given,
                coalesce(place.fate = '{Fate.PLAIN.value}', false) as plain,
                cast(null as bigint) as marker_offset, cast(null as bigint) as marker_ms
            ) as record""",
        )
    )


def _commits(positions: DataFrame) -> DataFrame:
    """Its offset commits, as they stand in the logs."""
    return positions.where("commit.op is not null").selectExpr(
        "run",
        "commit.op",
        f"""struct(
            commit.tp as tp, commit.committed as committed, tp as log_tp, offset as log_offset,
            {effective("fate")} as effect,
            commit.transactional as transactional,
            coalesce(abandoned, false) as abandoned,
            commit.group as group, marker_offset as marker_offset, marker_ms as marker_ms
        ) as commit""",
    )
