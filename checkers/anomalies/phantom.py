"""Phantom: a visible record without a cause: no announcement, no visible input, or an input that must not lead to it.

Every process of the run writes down what it is about to send before it sends it, so a visible record
whose value nobody announced was made by somebody else. And an output names the inputs that it comes
from: if one of them is aborted, still open at the end, or not there, a consumer acted on what it must
not have seen. If the expectation states what each input must lead to, an output in any other topic or output name
is a phantom as well.

Illegal because an effect without a cause is no effect of this pipeline.
Evidence: the journals. The values of a journal whose last line is torn, or that has gaps, are not accused, nor the
last operation of a process that was killed: lines that it wrote may be gone.
The input's fate in the leader's log; where there is none, a final read that went on beyond the input. A
record that bears no name is accused only in topics to which somebody announced sends.

    T1  send x=1, abort                                 fail
    T2  poll x=1, send y=2 (from x@4), commit     ok
    log of x: 1 at offset 4, abort at offset 5                 <- phantom: y=2

Without journals: a visible output that is joined to no input, or that names none where outputs must.

Blind spot: of pipelines that announce nothing only the inputs are looked at.
Reference: Jepsen's Kafka checker, which throws on such a record.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.external.tables import OK, ExternalTables
from checkers.findings.build import finding, operation, record, record_place
from checkers.findings.rules import Rule, Suspect
from checkers.findings.wording import AnomalyWording
from checkers.spark.joins import broadcast
from checkers.stored.attempts import CUT_OFF, JOURNAL_OF, OPERATION_OF
from checkers.stored.tables import Tables
from harness.results.example import FATES, Example
from harness.results.wording import printable

NAME = "phantom"
NOT_DUE = "its input must not lead to it"
STRAY = "(named and size(place.inputs) = 0)"
"""It names no input, where every output of a stage without journals must name one."""

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
            "input": record_place(),
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
            "correlation_key": "correlation_key",
            "why": "'no input must lead to it'",
        },
    ),
)
"""One finding for each record and invisible input; or for each record that is joined to no input."""
UNANNOUNCED = "send is null and exists(places, p -> p.visible)"
SUSPECTS = (Suspect("attempts", UNANNOUNCED),)


def phantom(t: Tables) -> DataFrame:
    """One row for each record that nobody announced."""
    visible = (
        t.attempts.where(UNANNOUNCED)
        .select("run", "value", F.explode("places").alias("place"))
        .where("place.visible")
        .select(
            "run",
            "value",
            "place",
            "place.topic",
            F.expr(JOURNAL_OF).alias("journal"),
            F.expr(OPERATION_OF).alias("number"),
        )
    )
    found = (
        visible.join(broadcast(t.journals), on=["run", "journal"], how="left")
        .join(broadcast(t.topics), on=["run", "topic"], how="left")
        .where(
            f"if(value is null or journal = '', announced or {STRAY}, coalesce(intact and not ({CUT_OFF}), false))"
        )
    )
    return finding(
        found,
        NAME,
        order=["place.tp", "place.offset"],
        absence="true",
        record=record("place.tp", "place.offset"),
        why="'nobody announced it'",
    )


def phantom_external(t: ExternalTables) -> DataFrame:
    """One row for each record that an ok operation polled and no operation sent.

    What an `info` or a `fail` operation polled proves nothing.
    """
    read = t.reads.where(F.col("writer").isNull() & (F.col("outcome") == OK))
    found = read.groupBy("run", "key", "value").agg(F.min(F.struct("op", "offset")).alias("read"))
    return finding(
        found.select("run", "key", "value", "read.*"),
        NAME,
        order=["key", "value"],
        ops="array(op)",
        absence="true",
        record="struct(key as key, value as value, offset as offset)",
        reader=operation(),
        why="'nobody sent it'",
    )


def _sentence(e: Example) -> str:
    if e.inputs and e.rest.get("why") == NOT_DUE:
        output_name = e.rest.get("slot")
        which = "" if output_name is None else f" of output_name {printable(output_name, 60)}"
        return f"{e.record} is visible, and its input, {e.input}, must lead to no output{which} there"
    if e.inputs:
        now = e.inputs[0].body.get("fate")
        what = "not a visible input" if now is None else FATES.get(str(now), printable(now, 40))
        return f"{e.record} is visible, and names {e.input}, which is {what}"
    if (correlation_key := e.rest.get("correlation_key")) is not None:
        named = f" (it is about {printable(correlation_key, 60)})" if correlation_key else ""
        holds = "" if e.content is None else f": it holds {e.content}"
        return f"{e.record} is visible, and no input must lead to it{named}{holds}"
    return f"{e.record} is visible, and nobody had announced to send it"


WORDING = {
    "phantom": AnomalyWording(
        "record came from nowhere",
        "records came from nowhere",
        "A visible record that nobody had announced to send, or that names no visible input.",
        _sentence,
    ),
}
