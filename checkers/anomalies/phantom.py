"""Phantom: a visible record has no cause: no announcement, no visible input, or an input that must not lead to it.

Every process of the run writes to its journal what it is about to send. So a visible record whose value is in no
journal was made by another process. An output also names the inputs that it comes from. If one of them is aborted,
still open at the end or missing, a consumer processed a record that it must not have received. If the expected outputs
of each input are known, an output in any other topic or with any other output name is a phantom as well.

Illegal because every effect of a pipeline must have a cause in its inputs.
Evidence: the journals. A value is not a phantom if lines of its journal may be missing. The last line may be torn, or
the journal may have gaps. Or the process was killed, and the value belongs to its last operation in the journal, or to
a later one. The fate of the input in the leader's log counts. Without that log, a final read that went beyond the input
counts. A record without a header that names its attempt is a phantom only in a topic to which a process announced
sends.

    T1  send x=1, abort                                 fail
    T2  poll x=1, send y=2 (from x@4), commit     ok
    log of x: 1 at offset 4, abort at offset 5                 <- phantom: y=2

Without journals: a visible output that is joined to no input, or that names no input in a topic where outputs must
name one.

Blind spot: if a pipeline announces nothing, only the inputs are checked.
Reference: Jepsen's Kafka checker, which throws on such a record.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.external_tables import ExternalTables
from checkers.findings import AnomalyWording, Rule, Suspect, finding, operation, record, record_position
from checkers.spark.frames import broadcast
from checkers.stored.operations import CUT_OFF, JOURNAL_OF, OPERATION_OF
from checkers.stored.tables import Tables
from harness.common.wording import printable
from harness.record.history_form import OK
from harness.results.example import Example, describe_fate

NAME = "phantom"
NOT_DUE = "its input must not lead to it"
STRAY = "(named and size(position.inputs) = 0)"
"""The record names no input, though it is in a topic where outputs of stages without journals must name one."""

RULES = (
    Rule(
        NAME,
        "inputs",
        elements="if(not visible and (coalesce(fate in ('abort', 'open'), false) or fate is null and judgeable), "
        "outputs, array())",
        where="element.visible",
        order=["element.tp", "element.offset", "tp", "offset"],
        ops="array(element.op)",
        absence="(fate is null)",
        detail={
            "record": record("element.tp", "element.offset", "element.name"),
            "operation": operation("element.op"),
            "input": "struct(tp as tp, offset as offset, fate as fate)",
            "why": "'its input is not visible'",
        },
    ),
    Rule(
        NAME,
        "inputs",
        elements="if(visible and owing, outputs, array())",
        where="element.visible and not coalesce(array_contains(unasked, element.topic), false) "
        "and not exists(expected, e -> e.topic = element.topic "
        "and coalesce(e.output_name = element.output_name, true))",
        order=["element.tp", "element.offset", "tp", "offset"],
        ops="array(element.op)",
        absence="true",
        detail={
            "record": record("element.tp", "element.offset", "element.name"),
            "operation": operation("element.op"),
            "input": record_position(),
            "slot": "element.output_name",
            "why": f"'{NOT_DUE}'",
        },
    ),
    Rule(
        NAME,
        "log_entries",
        where="visible and correlation_key is not null and size(inputs) = 0 and not sentinel",
        order=["tp", "offset"],
        absence="true",
        detail={
            "record": record(),
            "about": "correlation_key",
            "why": "'no input leads to it'",
        },
    ),
)
"""One finding for each record and input that must not lead to it, or for each record that is joined to no input."""
UNANNOUNCED = "send is null and exists(positions, p -> p.visible)"
SUSPECTS = (Suspect("attempts", UNANNOUNCED),)


def phantom(tables: Tables) -> DataFrame:
    """Return one row for each visible record that no process announced."""
    visible = (
        tables.attempts.where(UNANNOUNCED)
        .select("run", "value", F.explode("positions").alias("position"))
        .where("position.visible")
        .select(
            "run",
            "value",
            "position",
            "position.topic",
            F.expr(JOURNAL_OF).alias("journal"),
            F.expr(OPERATION_OF).alias("number"),
        )
    )
    unannounced = (
        visible.join(broadcast(tables.journals), on=["run", "journal"], how="left")
        .join(broadcast(tables.topics), on=["run", "topic"], how="left")
        .where(
            f"if(value is null or journal = '', announced or {STRAY}, coalesce(intact and not ({CUT_OFF}), false))"
        )
    )
    return finding(
        unannounced,
        NAME,
        order=["position.tp", "position.offset"],
        absence="true",
        record=record("position.tp", "position.offset"),
        why="'no process announced it'",
    )


def phantom_external(tables: ExternalTables) -> DataFrame:
    """Return one row for each record that an ok operation polled and no operation sent.

    The polls of `info` and `fail` operations prove nothing.
    """
    read = tables.reads.where(F.col("writer").isNull() & (F.col("outcome") == OK))
    unsent = read.groupBy("run", "key", "value").agg(F.min(F.struct("op", "offset")).alias("read"))
    return finding(
        unsent.select("run", "key", "value", "read.*"),
        NAME,
        order=["key", "value"],
        ops="array(op)",
        absence="true",
        record="struct(key as key, value as value, offset as offset)",
        reader=operation(),
        why="'no operation sent it'",
    )


def _sentence(e: Example) -> str:
    if e.inputs and e.rest.get("why") == NOT_DUE:
        output_name = e.rest.get("slot")
        which = "" if output_name is None else f" {printable(output_name, 60)}"
        return f"{e.record} is visible, but it comes from {e.input}, which must lead to no output{which} in that topic"
    if e.inputs:
        fate = e.inputs[0].get("fate")
        state = "not a visible input" if fate is None else describe_fate(fate)
        return f"{e.record} is visible, but it names {e.input}, which is {state}"
    if (correlation_key := e.rest.get("about")) is not None:
        named = f" (it is about {printable(correlation_key, 60)})" if correlation_key else ""
        holds = "" if e.content is None else f": it holds {e.content}"
        return f"{e.record} is visible, but no input leads to it{named}{holds}"
    return f"{e.record} is visible, but no process announced it"


WORDING = {
    "phantom": AnomalyWording(
        "record came from no visible input",
        "records came from no visible input",
        "A visible record that no process announced, that names no visible input, or that its input must not lead to.",
        _sentence,
    ),
}
