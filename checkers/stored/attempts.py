"""Make the table `attempts`: each value with its send and the positions at which it was found."""

from pyspark.sql import DataFrame

from checkers.spark.frames import broadcast, group, prefer_hash_join
from checkers.stored.operations import REPORTED_END
from checkers.stored.sources import Sources

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
