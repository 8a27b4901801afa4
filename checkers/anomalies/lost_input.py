"""Lost input: the group has gone past an input of which nothing came.

A visible input lies between the group's first position and its final committed offset (by fate), and
one of the output names that the workload expects of it has no visible output, though all outputs were read to
the end. Where each input is marked as done by itself, the mark says so, and no offset. Where a stage takes a
record that was made of the input, and names the input in what it writes, its group must have gone past that record.

Illegal because nobody will ever read that input again.
Evidence: the expectation, the offset commits in the order in which they took effect, and the final read
of the whole output topic. A topic that was not read to its sentinels, is compacted, or begins above
offset 0, proves nothing.

    T1  poll a@4, send x=1 (from a@4), abort                       fail
    T2  poll a@5, send x=2 (from a@5), send_offsets a->6, commit     ok
    final read of x: 2                                                      <- lost-input of a@4

Without journals: a group is taken to owe every input from offset 0 on, for its program is up before them. A stage
that commits for no group has gone past an input if a later one of its partition led to an output.

Blind spot: workloads that cannot say what an input leads to (aggregates have their own check).
Reference: KIP-98; Kingsbury, Bufstream 0.1.0 (2024).
"""

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.findings.build import MAX_SHOWN, finding, record_place
from checkers.findings.form import Findings
from checkers.findings.lookup import wanted_keys
from checkers.findings.rules import Suspect
from checkers.findings.wording import AnomalyWording
from checkers.spark.joins import broadcast
from checkers.stored.tables import Tables
from harness.results.example import UNNAMED_OPERATION, Example, describe_operation
from harness.results.wording import join_words, printable

LOST = ("run", "of", "input", "group")
"""An input that was lost: the run, its place, and the group that went past it."""
THERE = (
    "filter(outputs, o -> o.visible and coalesce(o.output_name = e.output_name and o.topic = e.topic, false))"
)
DUE = "greatest(size(filter(expected, x -> x.output_name = e.output_name and x.topic = e.topic)), 1)"
LACKING = f"""filter(expected, e -> size(array_distinct(transform({THERE}, o -> o.name))) < {DUE}
    and ({DUE} = 1 or not exists({THERE}, o -> o.digest <=> e.digest)))"""
"""The expected outputs that are missing. If several outputs have one name, those whose digest no output has."""


DONE = """if(e.intermediate_topic is null, struct(tp, offset), array_min(transform(
    filter(outputs, o -> o.visible and o.topic = e.intermediate_topic),
    o -> struct(o.tp as tp, o.offset as offset))))"""
"""The place that the group of the stage must have gone past."""
SUSPECTS = (Suspect("inputs", f"visible and size({LACKING}) > 0"),)


def lost_input(t: Tables) -> DataFrame:
    """One row for each input and output name."""
    due = (
        t.inputs.where(f"visible and size({LACKING}) > 0")
        .selectExpr("run", "tp", "offset", "outputs", "each", f"explode({LACKING}) as e")
        .selectExpr(
            *("run", "tp", "offset", "outputs", "e.group", "e.output_name", "e.topic"),
            *("each and e.intermediate_topic is null as marked", f"{DONE} as done"),
        )
        .selectExpr("*", "done.tp as done_tp")
    )
    groups = t.groups.withColumnRenamed("tp", "done_tp")
    found = (
        due.join(broadcast(groups), on=["run", "group", "done_tp"], how="left")
        .where("marked or (done.offset >= first and done.offset < final)")
        .join(broadcast(t.topics), on=["run", "topic"], how="inner")
        .where("topic_ru_end and (topic_logged or topic_rc_end) and topic_whole")
        .selectExpr("*", "filter(outputs, o -> o.output_name = output_name and o.topic = topic) as tried")
    )
    return finding(
        found,
        "lost-input",
        order=["tp", "offset"],
        ops="array_distinct(transform(tried, o -> o.op))",
        absence="true",
        input=record_place(),
        group="group",
        slot="output_name",
        output_topic="topic",
        final_committed="final",
        operations=f"transform(slice(tried, 1, {MAX_SHOWN}), o -> struct(o.op as op))",
    )


def explain(t: Tables, findings: Mapping[int, list[Findings]]) -> None:
    """Say by which offset commit its group went past each input: the first of all that did."""
    lost = [(run, example) for run, mine in findings.items() for one in mine for example in one.examples]
    inputs: set[tuple[int, ...]] = {(run, one["input"]["tp"], one["input"]["offset"]) for run, one in lost}
    by = "struct(offset, tp, producer_id, epoch, fate, marker_offset, commit.committed as committed, commit.op as op)"
    passed = (
        t.log_entries.where("commit is not null and fate in ('commit', 'plain')")
        .selectExpr("run", "commit.tp as of", "commit.group", f"{by} as by")
        .join(broadcast(wanted_keys(t.log_entries.sparkSession, LOST[:3], inputs)), on=["run", "of"])
        .where("by.committed > input")
        .groupBy(*LOST)
        .agg(F.min("by").alias("by"))
    )
    first = {tuple(row[key] for key in LOST): row["by"] for row in passed.toArrow().to_pylist()}
    for run, example in lost:
        by_commit = first.get((run, example["input"]["tp"], example["input"]["offset"], example.get("group")))
        if by_commit is not None:
            example["passed_by"] = {name: told for name, told in by_commit.items() if told is not None}


def _sentence(e: Example) -> str:
    output_name, topic = e.rest.get("slot"), e.rest.get("output_topic")
    what = (
        "an output that it must lead to"
        if output_name is None
        else f"its output {printable(output_name, 60)}"
    )
    where = "nowhere" if topic is None else f"nowhere in {printable(topic, 60)}"
    group = e.rest.get("group")
    went = (
        f"{e.input} is marked as done"
        if group is None
        else f"group {printable(group, 60)} went past {e.input}"
    )
    tried = [describe_operation(part.body) for part in e.operations if part.label != "passed_by"]
    passed = e.body.get("passed_by")
    said = describe_operation(passed) if isinstance(passed, Mapping) else UNNAMED_OPERATION
    by = "" if said == UNNAMED_OPERATION else f" by {said}"
    due = "" if e.expected_content is None else f"; {e.expected_content} was due"
    return f"{went}{by}, and {what} is {where}{due}" + (f"; {join_words(tried)} had tried" if tried else "")


WORDING = {
    "lost-input": AnomalyWording(
        "output of an input is missing",
        "outputs of inputs are missing",
        "An input counts as done (the group's committed offset went past it, or it is marked), and an output that it "
        "must lead to is not there.",
        _sentence,
    ),
}
