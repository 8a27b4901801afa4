"""Lost input: a group went past an input, but an expected output of the input is missing.

A visible input lies between the group's first position and its final committed offset (by fate). At least one output
that the workload expects of the input is not visible, although all outputs were read to the end. Equal outputs are
counted: an input that must lead to two of them and led to one is lost. If a stage marks each
input as done separately, the mark counts, and the committed offset does not. A later stage may make the output from an
intermediate record that an earlier stage made from the input. Then the group of the later stage must have gone past the
intermediate record.

A topic may get more partitions during the run. They belong to the inputs from offset 0 on. A group that has read none
of such a partition, though it had longer than clients take to notice it, has passed it over.

Illegal because no process will ever read that input again.
Evidence: the expected outputs, the offset commits in the order in which they took effect, and the final read of the
whole output topic. A topic proves nothing if it was not read to its sentinels, is compacted or begins above offset 0.

    T1  poll a@4, send x=1 (from a@4), abort                       fail
    T2  poll a@5, send x=2 (from a@5), send_offsets a->6, commit     ok
    final read of x: 2                                                      <- lost-input of a@4

Without journals: a group must process every input from offset 0 on, because its program is running before the inputs
are written. A stage that commits for no group has gone past an input if a later input of the same partition led to an
output.

Blind spot: workloads that do not say what an input leads to. `aggregate-mismatch` checks aggregates.
Reference: KIP-98; Kingsbury, Bufstream 0.1.0 (2024).
"""

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.findings import (
    MAX_SHOWN,
    UNDECIDED_INFIX,
    AnomalyWording,
    Findings,
    Suspect,
    finding,
    findings,
    record_position,
    wanted_keys,
)
from checkers.spark.frames import broadcast
from checkers.stored.inputs import MISSING_OUTPUTS
from checkers.stored.tables import Tables
from harness.common.wording import join_words, printable
from harness.results.example import UNNAMED_OPERATION, Example, PassingCommit

LOST = ("run", "of", "input", "group")
"""These columns identify a lost input: its run, partition and offset, and the group that went past it."""
DONE = """if(e.intermediate_topic is null, struct(tp, offset), array_min(transform(
    filter(outputs, o -> o.visible and o.topic = e.intermediate_topic),
    o -> struct(o.tp as tp, o.offset as offset))))"""
"""The position that the group of the stage must have gone past: the input, or its first intermediate record."""
SUSPECTS = (Suspect("inputs", f"visible and size({MISSING_OUTPUTS}) > 0"),)


LEFT, NO_COMMIT, NO_START, NOT_READ = "left", "no commit", "no start", "not read"
UNDECIDED = {
    LEFT: (
        "the group of the stage had not committed past them when the run ended, so their outputs may only be late",
        (
            "see whether the stage still worked: the report has the committed offset of each partition, and workers/ "
            "the logs. If it only needs longer, write a longer works_within_s or idle_s in its [[stage]]"
        ),
    ),
    NO_COMMIT: (
        "no committed offset of the stage is known for them, so it is not known whether it is done with them",
        (
            "write `group` in the [[stage]] if the program commits offsets for one, or a longer idle_s (longer than "
            "a rebalance, or than the lock of a share group), after which a silent stage is taken to be done"
        ),
    ),
    NO_START: (
        "it is not known from which offset the group of the stage began to read, so it may have begun above them",
        "repeat the run; if its workers' journals lack it again, report it",
    ),
    NOT_READ: (
        "the topic of their outputs was not read from its start to its end",
        "let the run finish, and let the topic keep all records (no compaction, no retention below the run's time)",
    ),
}
"""By why an input without an output is not decided: which evidence is missing, and what would bring it."""
DECIDED = "(marked or coalesce(done.offset >= first and done.offset < final, false))"
READ_TO_THE_END = "topic_ru_end and (topic_logged or topic_rc_end) and topic_whole"


def undecided(tables: Tables) -> DataFrame:
    """Return one row for each input that lacks an output and that is not decided, with the reason `why`."""
    rows = (
        _due(tables)
        .join(broadcast(_groups(tables)), on=["run", "group", "done_tp"], how="left")
        .join(broadcast(tables.topics), on=["run", "topic"], how="left")
        .selectExpr("*", f"{DECIDED} as decided", f"coalesce({READ_TO_THE_END}, false) as read")
        .where("done is not null and not (decided and read)")
        .selectExpr(
            "*",
            f"case when decided then '{NOT_READ}' when final is null then '{NO_COMMIT}' "
            f"when done.offset >= final then '{LEFT}' when first is null then '{NO_START}' end as why",
        )
        .where("why is not null")  # an input before the start of its group is not the group's
        .groupBy("run", "tp", "offset")
        .agg(*(F.expr(f"min({name}) as {name}") for name in ("why", "group", "topic", "output_name")))
    )
    return findings(
        rows,
        f"concat('lost-input{UNDECIDED_INFIX}', why)",
        order=["tp", "offset"],
        absence="true",
        input=record_position(),
        group="group",
        slot="output_name",
        output_topic="topic",
    )


def _groups(tables: Tables) -> DataFrame:
    return tables.groups.withColumnRenamed("tp", "done_tp")


def _due(tables: Tables) -> DataFrame:
    """Select each missing output of a visible input, and the position that its group must have gone past."""
    return (
        tables.inputs.where(f"visible and size({MISSING_OUTPUTS}) > 0")
        .selectExpr("run", "tp", "offset", "outputs", "each", f"explode({MISSING_OUTPUTS}) as e")
        .selectExpr(
            *("run", "tp", "offset", "outputs", "e.group", "e.output_name", "e.topic"),
            *("each and e.intermediate_topic is null as marked", f"{DONE} as done"),
        )
        .selectExpr("*", "done.tp as done_tp")
    )


def lost_input(tables: Tables) -> DataFrame:
    """Return one row for each input and output name."""
    lost = (
        _due(tables)
        .join(broadcast(_groups(tables)), on=["run", "group", "done_tp"], how="left")
        .where(DECIDED)
        .join(broadcast(tables.topics), on=["run", "topic"], how="inner")
        .where(READ_TO_THE_END)
        .selectExpr("*", "filter(outputs, o -> o.output_name = output_name and o.topic = topic) as tried")
    )
    return finding(
        lost,
        "lost-input",
        order=["tp", "offset"],
        ops="array_distinct(transform(tried, o -> o.op))",
        absence="true",
        input=record_position(),
        group="group",
        slot="output_name",
        output_topic="topic",
        final_committed="if(passed_over, null, final)",
        passed_over="if(passed_over, true, null)",
        operations=f"transform(slice(filter(tried, o -> o.op is not null), 1, {MAX_SHOWN}), o -> struct(o.op as op))",
        records=f"transform(slice(tried, 1, {MAX_SHOWN}), o -> "
        "struct(o.tp as tp, o.offset as offset, o.name as value, o.op as op))",
    )


def explain(tables: Tables, by_run: Mapping[int, list[Findings]]) -> None:
    """Add to each example the first offset commit by which the group went past the input."""
    lost = [
        (run, example, example.inputs[0])
        for run, run_findings in by_run.items()
        for finding in run_findings
        for example in finding.examples
    ]
    inputs: set[tuple[int, ...]] = {(run, at.facts["tp"], at.facts["offset"]) for run, _, at in lost}
    by = "struct(offset, tp, producer_id, epoch, fate, marker_offset, commit.committed as committed, commit.op as op)"
    passed = (
        tables.log_entries.where("commit is not null and fate in ('commit', 'plain')")
        .selectExpr("run", "commit.tp as of", "commit.group", f"{by} as by")
        .join(broadcast(wanted_keys(tables.log_entries.sparkSession, LOST[:3], inputs)), on=["run", "of"])
        .where("by.committed > input")
        .groupBy(*LOST)
        .agg(F.min("by").alias("by"))
    )
    first = {tuple(row[key] for key in LOST): row["by"] for row in passed.toArrow().to_pylist()}
    for run, example, at in lost:
        commit = first.get((run, at.facts["tp"], at.facts["offset"], example.facts.get("group")))
        if commit is not None:
            facts = {name: value for name, value in commit.items() if value is not None}
            example.facts["passed_by"] = PassingCommit("passed_by", facts)


def _sentence(e: Example) -> str:
    output_name, topic = e.rest.get("slot"), e.rest.get("output_topic")
    output = "an expected output" if output_name is None else f"its output {printable(output_name, 60)}"
    where = "missing" if topic is None else f"missing in {printable(topic, 60)}"
    group = e.rest.get("group")
    if group is None:
        went = f"{e.input} is marked as done"
    elif e.rest.get("passed_over"):
        went = f"group {printable(group, 60)} never read the partition of {e.input}, which the topic got during the run"
    else:
        went = f"group {printable(group, 60)} went past {e.input}"
    tried = [part.words for part in e.operations]
    passed = e.part("passed_by")
    committer = passed.operation.words if isinstance(passed, PassingCommit) else UNNAMED_OPERATION
    by = "" if committer == UNNAMED_OPERATION else f" by {committer}"
    expected = "" if e.expected_content is None else f"; {e.expected_content} was expected"
    attempts = f"; {join_words(tried)} had tried to write it" if tried else ""
    fates = [f"{record.position} is {record.fate}" for record in e.records if record.label == "record"]
    if fates and not tried:
        attempts = f"; {join_words(fates)}"
    return f"{went}{by}, but {output} is {where}{expected}{attempts}"


WORDING = {
    "lost-input": AnomalyWording(
        "output of an input is missing",
        "outputs of inputs are missing",
        "An input is done, because the group's committed offset went past it or because it is marked as done. But an "
        "expected output of it is missing.",
        _sentence,
    ),
}
