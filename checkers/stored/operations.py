"""Make the tables `operations` and `attempts`.

`operations` has each operation with the fates of its records, offset commits and claims. `attempts` has each value with
its send and the positions at which it was found.
"""

from pyspark.sql import DataFrame

from checkers.spark.frames import broadcast, group, prefer_hash_join
from checkers.stored.partition_tables import effective
from checkers.stored.sources import Sources
from harness.model.vocabulary import Fate, Outcome

REPORTED_END = f"""case when outcome = '{Outcome.OK.value}' and coalesce(asked != 'abort', true) then 'committed'
    when outcome in ('{Outcome.OK.value}', '{Outcome.FAIL.value}') then 'aborted' else 'unknown' end"""
"""For a row of `ops`: how its client says that it ended: committed, aborted, or unknown."""
FATES = "concat(records.effect, commits.effect)"
SETTLED = f"""case when operation.reported_end != 'unknown' then operation.reported_end
    when array_contains({FATES}, '{Fate.COMMIT.value}') then 'committed'
    when array_contains({FATES}, '{Fate.ABORT.value}') then 'aborted'
    when array_contains({FATES}, '{Fate.OPEN.value}') then 'open'
    when exists(records, r -> not r.logged and r.delivered) then 'committed'
    when size({FATES}) = 0 and (size(claims) = 0 or commits_logged) then 'none'
    else 'unknown' end"""
"""How an operation ended: by the answer that its client got, or else by the log, or else by the final read.

`none`: no record and no offset commit of it was found. Its records would be in the final read, and its offset
commits in the log.
"""


CLAIMS_WITHOUT_COMMIT = """filter(claims, c -> array_contains(named_groups, c.group)
    and not exists(commits, m -> m.tp = c.tp and m.group = c.group))"""
"""The claims of an operation whose offset commit is gone. Claims of a group whose commits may not name their operation
are left out.
"""
WITHOUT_REPEATS = f"""filter(commits, c -> not (c.effect <=> '{Fate.ABORT.value}' and exists(commits, m ->
    m.effect = '{Fate.COMMIT.value}' and m.tp = c.tp and m.group = c.group and m.committed <=> c.committed)))"""
"""The offset commits of an operation, without aborted ones that repeat a committed one.

A TxnOffsetCommit whose client has sent it again can arrive late, in a later transaction. If that one aborts, the
offset has taken effect nevertheless.
"""
OF_RUN = (
    "commits_logged",
    "named_groups",
    "outside_groups",
    "wall_ms",
)
"""Columns of `runs` that rules over operations need."""


def make_operations(
    s: Sources, runs: DataFrame, journals: DataFrame, log_entries: DataFrame, attempts: DataFrame
) -> DataFrame:
    """Make the table `operations`: one row for each operation.

    Columns:
        run, op
        operation: struct, its row of `ops` (see `_operations`)
        twice: the table ops has it twice
        reported_end: how its client says that it ended: committed, aborted, unknown
        transactional: it has a transactional id
        settled: how it ended: committed, aborted, open, none, unknown (see `SETTLED`)
        sound: its journal lacks no line and no operation (`unbroken` in the table `journals`)
        the columns `OF_RUN` of its run
        records: array [n, value, tp, offset, acked, effect, other (another value is at the acknowledged position),
            abandoned, held, logged, covered, passed, visible, delivered, plain (not transactional), marker_offset and
            marker_ms (null if it was not acknowledged)]. A record without an acknowledged position has the position at
            which the final reader received it, and is held, but neither covered nor passed. The other fields are as in
            `log_entries`
        commits: array of offset commits [tp, committed, log_tp, log_offset, effect, transactional, abandoned,
            group, marker_offset, marker_ms] (see `WITHOUT_REPEATS`)
        claims: array of input ranges [group, tp, first, next]
    """
    united = _operations(s)
    for part in (
        _acknowledged_records(log_entries),
        _found_records(attempts),
        _commits(log_entries),
        _claims(s),
    ):
        united = united.unionByName(part, allowMissingColumns=True)
    aggregates = (
        "any_value(operation, true) as operation",
        "count(operation) > 1 as twice",
        "sort_array(collect_list(record)) as records",
        "sort_array(collect_list(commit)) as commits",
        "sort_array(collect_list(claim)) as claims",
    )
    sound = journals.where("unbroken").select("run", "journal").distinct().selectExpr("*", "true as unbroken")
    return (
        group(united, ("run", "op"), aggregates)
        .where("operation is not null")
        .selectExpr("*", "operation.journal")
        .join(broadcast(runs.select("run", *OF_RUN)), on="run", how="left")
        .join(broadcast(sound), on=["run", "journal"], how="left")
        .selectExpr(
            *("run", "op", "operation", "twice", "records", "claims", *OF_RUN),
            f"{WITHOUT_REPEATS} as commits",
            "coalesce(unbroken, false) as sound",
            "operation.reported_end as reported_end",
            "operation.transactional_id is not null as transactional",
            f"{SETTLED} as settled",
        )
    )


def _operations(s: Sources) -> DataFrame:
    """Select the rows of `ops`, with `reported_end`."""
    names = "name, journal, f, stage, fenced, group, transactional_id, txn, outcome, asked"
    columns = f"{names}, call_ns, commit_ns, return_ns"
    return s["ops"].selectExpr("run", "op", f"struct({columns}, {REPORTED_END} as reported_end) as operation")


def _claims(s: Sources) -> DataFrame:
    """Select the input ranges that operations claim."""
    return s["claims"].selectExpr("run", "op", "struct(group, tp, first, next) as claim")


def _acknowledged_records(log_entries: DataFrame) -> DataFrame:
    """Select the acknowledged records of operations, each at its acknowledged position."""
    # The position has the value that was sent there, or the final reader received nothing there.
    fits = "(not found or value <=> ack.value)"
    return log_entries.selectExpr("*", "explode(acks) as ack").selectExpr(
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
            delivered and {fits} as delivered,
            coalesce({fits} and fate = '{Fate.PLAIN.value}', false) as plain,
            if({fits}, marker_offset, null) as marker_offset, if({fits}, marker_ms, null) as marker_ms
        ) as record""",
    )


def _found_records(attempts: DataFrame) -> DataFrame:
    """Select the records without an acknowledged position, each at the position where the final reader received it."""
    return (
        attempts.where("send is not null and send.offset is null")
        .selectExpr("run", "value", "send", "explode(positions) as position")
        .selectExpr(
            "run",
            "send.op",
            f"""struct(
                send.n as n, value as value, position.tp as tp, position.offset as offset,
                false as acked,
                {effective("position.fate")} as effect,
                false as other,
                false as abandoned,
                true as held,
                position.fate is not null as logged, false as covered, false as passed, position.visible as visible,
                position.delivered as delivered,
                coalesce(position.fate = '{Fate.PLAIN.value}', false) as plain,
                cast(null as bigint) as marker_offset, cast(null as bigint) as marker_ms
            ) as record""",
        )
    )


def _commits(log_entries: DataFrame) -> DataFrame:
    """Select the offset commits of operations from the logs."""
    return log_entries.where("commit.op is not null").selectExpr(
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


_NAME = "'^(.+):([0-9]+):[0-9]+$'"
JOURNAL_OF = f"regexp_extract(value, {_NAME}, 1)"
"""The journal of the process that sent a value, taken from the value itself. Empty if the value has another form."""
OPERATION_OF = f"try_cast(regexp_extract(value, {_NAME}, 2) as bigint)"
"""The number of the operation within its journal."""
CUT_OFF = "not ended and number >= ops - 1"
"""For a value that no journal announced, joined with its journal: the line that announced it may be lost.

The process of that journal was killed. Its last lines may not have reached the disk.
"""


def make_attempts(s: Sources, log_entries: DataFrame) -> DataFrame:
    """Make the table `attempts`: one row for each value that a journal announced or that was found.

    Columns:
        run
        name: the value; `@tp/offset` for a record without a value
        value: null for a record without one
        send: struct of the send and its operation (see `_sends`); null: no journal has a send of this value
        twice: journals have more than one send of this value
        positions: array of the positions at which the value was found [tp, offset, topic, fate, visible, delivered,
            polled, promised, output_name, inputs, digest, correlation_key]
    """
    columns = "tp, offset, topic, fate, visible, delivered, polled, promised"
    columns += ", output_name, inputs, digest, correlation_key"
    name = "coalesce(value, format_string('@%d/%d', tp, offset)) as name"
    positions = log_entries.where("found and not sentinel and not internal").selectExpr(
        "run", name, "value", f"struct({columns}) as position"
    )
    sends = _sends(s).selectExpr("run", "value as name", "value", "send")
    united = sends.unionByName(positions, allowMissingColumns=True)
    aggregates = (
        "any_value(send, true) as send",
        "collect_list(position) as positions",
        "count(send) > 1 as twice",
    )
    return group(united, ("run", "name", "value"), aggregates)


def _sends(s: Sources) -> DataFrame:
    """Join each send with its operation.

    Columns:
        run, value
        send: struct [op, n, topic, tp, offset, acked, output_name, inputs, digest, role, outcome, transactional,
            commit_ns, reported_end, claims]
    """
    journals = s["journals"].select("run", "journal", "role")
    claiming = s["claims"].select("run", "op").distinct().selectExpr("*", "true as claims")
    ops = (
        s["ops"]
        .join(broadcast(journals), on=["run", "journal"], how="left")
        .selectExpr(
            *("run", "op", "role", "outcome", "transactional_id is not null as transactional", "commit_ns"),
            f"{REPORTED_END} as reported_end",
        )
        .join(prefer_hash_join(claiming), on=["run", "op"], how="left")
    )
    columns = (
        "op, n, topic, tp, offset, acked, output_name, inputs, digest, "
        "role, outcome, transactional, commit_ns, reported_end"
    )
    return (
        s["sends"]
        .join(prefer_hash_join(ops), on=["run", "op"], how="left")
        .selectExpr("run", "value", f"struct({columns}, coalesce(claims, false) as claims) as send")
    )
