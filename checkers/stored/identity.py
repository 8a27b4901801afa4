"""Outputs that do not name their inputs, joined to them by what they hold.

The final readers say of each such output what it is `about` (a field, a header, its key, or all that it holds), and of
each input what the outputs that it must lead to are to be about. Of one topic and one `about` there may be several of
each: then the first output accounts for what is due first, and so on, visible outputs and others apart; outputs beyond
all that is due account for what is due last, which then has too many.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.stored.sources import Sources, StoredRun
from harness.history import Role

BY = "partition by run, topic, about"


def identified(s: Sources, runs: Sequence[StoredRun]) -> Sources:
    """`records` with the inputs and slots of such outputs; of what nothing accounts for they stay empty."""
    if not any(run.joined for run in runs):
        return s
    due = (
        s["expected"]
        .where("about is not null and adds is null")
        .selectExpr(
            *("run", "topic", "about", "tp as of_tp", "offset as of_offset", "slot as of_slot"),
            f"row_number() over ({BY} order by tp, offset, slot) as rank",
            f"count(1) over ({BY}) as most",
        )
    )
    ranked = (
        s["records"]
        .join(F.broadcast(s["partitions"].select("run", "tp", "topic")), on=["run", "tp"])
        .where("about is not null")
        .join(_visible(s), on=["run", "tp", "offset"], how="left")
        .selectExpr(
            *("run", "tp", "offset", "topic", "about"),
            f"row_number() over ({BY}, coalesce(visible, false) order by tp, offset) as rank",
        )
    )
    most = due.where("rank = 1").select("run", "topic", "about", "most")
    found = (
        ranked.join(most, on=["run", "topic", "about"])
        .selectExpr("run", "tp", "offset", "topic", "about", "least(rank, most) as rank")
        .join(due.drop("most"), on=["run", "topic", "about", "rank"])
        .select("run", "tp", "offset", "of_tp", "of_offset", "of_slot")
    )
    columns = {
        "slot": "coalesce(of_slot, slot) as slot",
        "inputs": "if(of_tp is null, inputs, array(struct(of_tp as tp, of_offset as offset))) as inputs",
    }
    joined = s["records"].join(found, on=["run", "tp", "offset"], how="left")
    return {**s, "records": joined.selectExpr(*(columns.get(name, name) for name in s["records"].columns))}


def _visible(s: Sources) -> DataFrame:
    """What the final read-committed reader was given."""
    return (
        s["polls"].where(f"role = '{Role.FINAL.value}'").selectExpr("run", "tp", "offset", "true as visible")
    )
