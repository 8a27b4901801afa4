"""By value: who announced it, where it stands, and what is known of its operation."""

from pyspark.sql import DataFrame

from checkers.spark.joins import broadcast, group, prefer_hash_join
from checkers.stored.operations import REPORTED_END
from checkers.stored.sources import Sources

_NAME = "'^(.+):([0-9]+):[0-9]+$'"
JOURNAL_OF = f"regexp_extract(value, {_NAME}, 1)"
"""The journal that a value names; empty: it is not named by one."""
OPERATION_OF = f"try_cast(regexp_extract(value, {_NAME}, 2) as bigint)"
"""The number of the operation within its journal."""
CUT_OFF = "not ended and number >= ops - 1"
"""Of a value that nobody announced, joined with its journal: the announcement may have been in lines that are gone.

The process of that journal was killed. What it wrote last cannot be told from what was cut off.
"""


def make_attempts(s: Sources, positions: DataFrame) -> DataFrame:
    """run, name (the value; `@tp/offset` for a record that bears none), value, send (null: nobody announced
    it), twice (it was announced twice), places [tp, offset, topic, fate, visible, given, polled, promised, output name,
    inputs, digest].
    """
    place = "struct(tp, offset, topic, fate, visible, given, polled, promised, output_name, inputs, digest) as place"
    name = "coalesce(value, format_string('@%d/%d', tp, offset)) as name"
    places = positions.where("found and not sentinel and not internal").selectExpr(
        "run", name, "value", place
    )
    sends = _writers(s).selectExpr("run", "value as name", "value", "send")
    united = sends.unionByName(places, allowMissingColumns=True)
    told = "any_value(send, true) as send", "collect_list(place) as places", "count(send) > 1 as twice"
    return group(united, ("run", "name", "value"), told)


def _writers(s: Sources) -> DataFrame:
    """Sends with what is known of their operation: run, value, send (a struct)."""
    journals = s["journals"].select("run", "journal", "role")
    claiming = s["claims"].select("run", "op").distinct().selectExpr("*", "true as claims")
    ops = (
        s["ops"]
        .join(broadcast(journals), on=["run", "journal"], how="left")
        .selectExpr(
            *("run", "op", "role", "outcome", "transactional_id is not null as transactional", "commit_ns"),
            f"{REPORTED_END} as told",
        )
        .join(prefer_hash_join(claiming), on=["run", "op"], how="left")
    )
    columns = (
        "op, n, topic, tp, offset, acked, output_name, inputs, digest, "
        "role, outcome, transactional, commit_ns, told"
    )
    return (
        s["sends"]
        .join(prefer_hash_join(ops), on=["run", "op"], how="left")
        .selectExpr("run", "value", f"struct({columns}, coalesce(claims, false) as claims) as send")
    )
