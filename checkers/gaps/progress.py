"""Gaps in what the stages processed: whether anything was done, what inputs must lead to, and how far groups came.

A run in which nothing was processed proves nothing. A custom pipeline keeps no journals, so it is known only from its
outputs and offsets whether a stage has taken an input.
"""

from collections.abc import Iterable, Iterator

from checkers.gaps.logs import LOGS_CUT
from checkers.gaps.processes import CUT_SHORT, NO_LAST_RECORD, NOT_READ
from checkers.gaps.rule import GapRule, Row, RunEvidence, once
from harness.model.promises import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from harness.model.vocabulary import OffsetTracking, Role
from harness.results.reasons import ReasonCode

BY_MARKERS = "transactions by their markers"
"""The subject of transactions whose markers could not be identified."""
NOT_IDENTIFIED = "the markers of {lost} of {ended} transactions could not be identified"
NOT_STARTED = (*CUT_SHORT, ReasonCode.NEVER_CAME_UP, ReasonCode.PIPELINE_FAILED)
"""Problems after which a pipeline may have processed nothing."""
NOT_TAKEN = (
    "look for errors in its log, in workers/ of the run; if it was still working, write a longer idle_s in its "
    "[[stage]], or let [stage.progress] print what it has processed, so that the run waits for it; if it has a group, "
    "write the `group`"
)
NO_OUTPUTS = (
    "let `outputs` or `fold` in [expect] return the outputs that the inputs of this stage must lead to"
)
NOTHING_WRITTEN = (
    "read the logs of the programs, in workers/ of the run; `--nemesis none` shows whether they work"
)
OTHER_GROUP = (
    "check that `group` in the [[stage]] is the group in which the program commits, and that it commits the offsets of "
    "inputs without outputs as well"
)


def _without_journals(evidence: RunEvidence) -> bool:
    """True if a stage keeps no journals."""
    return any(stage.get("journaled") is False for stage in evidence.facts.stages)


def _journaled(evidence: RunEvidence) -> bool:
    """True if all stages keep journals, and have left some or promised them."""
    stages = evidence.facts.stages
    promised = any(stage["stage"] in evidence.promises.journaled for stage in stages)
    return (
        bool(stages)
        and not _without_journals(evidence)
        and (evidence.facts.has_journal_of(Role.WORKER) or promised)
    )


def _consumed(evidence: RunEvidence) -> bool:
    return _journaled(evidence) and bool(evidence.facts.total("consumed"))


def _stages_with_outputs(evidence: RunEvidence, *, journaled: bool) -> set[str]:
    """Return the stages whose inputs must lead to something."""
    stages = {
        stage["stage"]
        for stage in evidence.facts.stages
        if journaled or stage.get("journaled") is False  # of a custom pipeline, only those without journals
    }
    return stages - set(evidence.promises.free_stages)


def _has_expectations(evidence: RunEvidence) -> bool:
    """True if the outputs of a pipeline without journals are joined to their inputs."""
    run = evidence.run
    return not run.journaled and (run.correlated or (run.blind and not run.without_journals))


def _must_lead_to_outputs(evidence: RunEvidence) -> bool:
    """True if inputs were read that must lead to outputs."""
    if _consumed(evidence) and _stages_with_outputs(evidence, journaled=True):
        return True
    without_journals = _has_expectations(evidence) and _stages_with_outputs(evidence, journaled=False)
    return bool(without_journals) and bool(evidence.facts.total("inputs"))


def _is_nothing_expected(evidence: RunEvidence) -> bool:
    return (
        _must_lead_to_outputs(evidence) and not evidence.numbers["expected"] and not evidence.numbers["sums"]
    )


def _stages_without_expectation(evidence: RunEvidence) -> Iterator[Row]:
    """Yield the stages without an expected output, if other stages have some."""
    due = evidence.facts.due
    if not due:
        return
    if _consumed(evidence):
        for stage in sorted(_stages_with_outputs(evidence, journaled=True) - due):
            yield {"stage": stage, "remedy": ""}
    if _has_expectations(evidence):
        for stage in sorted(_stages_with_outputs(evidence, journaled=False) - due):
            yield {"stage": stage, "remedy": NO_OUTPUTS}


def _expected_rows(evidence: RunEvidence) -> Iterator[Row]:
    """Yield how many rows of `expected` the final readers wrote for each partition, and how many are stored."""
    written: dict[int, int] = {}
    for row in evidence.facts.ends:
        if row.get("expected") is not None:
            written[row["tp"]] = written.get(row["tp"], 0) + row["expected"]
    for tp, rows in sorted(written.items()):
        if tp in evidence.facts.partitions:
            stored = evidence.facts.partitions[tp]["expected"]
            yield {"partition": evidence.facts.name(tp), "written": rows, "stored": stored}


_NOTHING_READ = (
    "partitions-empty",
    "no-final-reader",
    "final-read-not-stored",
    "partition-not-read",
    "final-read-unfinished",
)
NOTHING_DONE: tuple[GapRule[RunEvidence], ...] = (
    GapRule(
        "expected-count-differs",
        _expected_rows,
        "the table expected holds {stored:row} for the inputs of {partition}, and the final reader wrote {written}",
        where=lambda row: row["stored"] != row["written"],
        subject="expected of {partition}",
        tables=("expected",),
        follows_from=("expected-empty",),
    ),
    GapRule(
        "nothing-read",
        once(lambda e: not e.facts.total("read"), table="polls"),
        "the final read-committed readers received no record: nothing was read",
        subject="nothing read",
        tables=("polls",),
        follows_from=(*NOT_READ, *_NOTHING_READ),
        shares=("table",),
    ),
    GapRule(
        "no-visible-output",
        once(lambda e: _without_journals(e) and not e.facts.count_any_outputs()),
        "no output is visible: nothing was committed",
        subject="nothing committed",
        remedy=NOTHING_WRITTEN,
        follows_from=(*NOT_STARTED, "partitions-empty", "no-final-reader", "no-inputs", *LOGS_CUT),
    ),
    GapRule(
        "nothing-committed",
        once(
            lambda e: (
                not _without_journals(e)
                and not e.numbers["effective_of_stages" if e.facts.stages else "effective"]
            )
        ),
        "no operation is known to have taken effect: nothing was committed",
        subject="nothing committed",
        follows_from=(*NOT_STARTED, "no-inputs", "nothing-consumed", "journal-lacks-operations"),
    ),
    GapRule(
        "no-inputs",
        once(lambda e: e.facts.stages and not e.facts.total("inputs")),
        "no input is visible: there was nothing to process",
        subject="no inputs",
        remedy="choose a longer `--time-limit` or a higher `--rate`",
        follows_from=(*NOT_STARTED, "partitions-empty", "no-final-reader", *LOGS_CUT),
    ),
    GapRule(
        "nothing-consumed",
        once(lambda e: _journaled(e) and not e.facts.total("consumed"), table="polls"),
        "no worker received any input: nothing was consumed",
        subject="nothing consumed",
        tables=("polls",),
        follows_from=(*NOT_STARTED, "partitions-empty", "final-read-not-stored", "no-inputs"),
        shares=("table",),
    ),
    GapRule(
        "assignments-empty",
        once(lambda e: _consumed(e) and not e.numbers["assignments"]),
        "the table assignments is empty, though inputs were read",
        subject="assignments",
        tables=("assignments",),
    ),
    GapRule(
        "expected-empty",
        once(_is_nothing_expected),
        "the table expected is empty, though inputs were read",
        subject="expected",
        tables=("expected",),
        follows_from=(*NOT_READ, ReasonCode.DESCRIPTION_CHANGED, "no-final-reader"),
    ),
    GapRule(
        "stage-without-expectation",
        _stages_without_expectation,
        "it is not known what the inputs of stage {stage} must lead to",
        subject="expected of {stage}",
        tables=("expected",),
        remedy="{remedy}",
        follows_from=(*NOT_READ, ReasonCode.DESCRIPTION_CHANGED),
    ),
    GapRule(
        "claims-empty",
        once(
            lambda e: (
                _consumed(e)
                and _stages_with_outputs(e, journaled=True)
                and not e.numbers["claims"]
                and e.facts.total("commits")
            )
        ),
        "the table claims is empty, though offsets were committed",
        subject="claims",
        tables=("claims",),
    ),
)


def _groups_without_start(evidence: RunEvidence) -> Iterator[Row]:
    """Yield the groups with commits in a partition, whose start there is not known."""
    for row in sorted(evidence.facts.groups, key=lambda row: (row["group"], row["tp"])):
        yield {**row, "partition": evidence.facts.name(row["tp"])}


def _group_progress(evidence: RunEvidence) -> Iterator[Row]:
    """Yield how far each group of a stage came in each partition with inputs that it must process.

    Columns: `log` (the topic with the commits), stage, group, partition, `inputs`, `final` (the committed offset; None:
    there is none), `last` (the offset of the last input), `log_end` (None: the log is not stored), `drained`, `remedy`.
    """
    for stage in evidence.facts.stages:
        free = stage["stage"] in evidence.promises.free_stages
        in_group = stage.get("positions") in (None, OffsetTracking.GROUP.value)
        if stage.get("group") is None or free or not in_group:
            continue
        for partition in evidence.partitions:
            if partition["topic"] == stage["in_topic"] and partition.get("stable_inputs"):
                yield {
                    "log": OFFSETS_TOPIC,
                    "stage": stage["stage"],
                    "group": stage["group"],
                    "partition": partition["name"],
                    "inputs": partition["stable_inputs"],
                    "final": evidence.facts.progress.get((stage["group"], partition["tp"])),
                    "last": partition.get("last_stable", -1),
                    "log_end": partition.get("log_end") if partition["logged"] else None,
                    "drained": evidence.run.drained,
                    "remedy": OTHER_GROUP if stage.get("journaled") is False else "",
                }


def _is_beyond_the_end(row: Row) -> bool:
    return row["final"] is not None and row["log_end"] is not None and row["final"] > row["log_end"]


def _left_inputs(evidence: RunEvidence) -> Iterable[Row]:
    """Yield the stages without journals that left inputs without outputs."""
    if not evidence.run.journaled:
        yield from (
            {"stage": stage, "inputs": inputs} for stage, inputs in sorted(evidence.facts.left.items())
        )


LEFT_INPUTS = "stage-left-inputs"
_GROUP = "group {group} of stage {stage}"
GROUPS: tuple[GapRule[RunEvidence], ...] = (
    GapRule(
        "group-start-unknown",
        _groups_without_start,
        "it is not known from which offset group {group} read {partition}, which it has committed up to offset "
        "{final}: skipped inputs would not be noticed",
        subject="group {group}",
        tables=("assignments",),
        follows_from=(
            *("journals-empty", "several-journals-lack-operations", "journal-lacks-operations"),
            *("journal-not-stored", "assignments-empty", "claims-empty"),
        ),
    ),
    GapRule(
        LEFT_INPUTS,
        _left_inputs,
        "{inputs:input} of stage {stage} led to no output, and it is not known whether the stage has taken them",
        subject="left by {stage}",
        remedy=NOT_TAKEN,
        follows_from=(*NOT_STARTED, ReasonCode.NOT_DRAINED, ReasonCode.INPUTS_LEFT, *LOGS_CUT),
        shares=("stage",),
    ),
    GapRule(
        "group-beyond-the-end",
        _group_progress,
        _GROUP + " has committed offset {final} of {partition}, whose log ends at {log_end}",
        where=_is_beyond_the_end,
        subject="progress of {group} in {partition}",
        remedy="{remedy}",
    ),
    GapRule(
        "group-committed-nothing",
        _group_progress,
        _GROUP
        + " has committed no offset of {partition}, which holds {inputs:input}: it is not known which were "
        "processed",
        where=lambda row: row["final"] is None and row["drained"],
        subject="progress of {group} in {partition}",
        remedy="{remedy}",
        follows_from=(
            *("nothing-committed", "no-visible-output", "offsets-empty", "offset-commits-missing"),
            *("logs-missing", "no-leader"),
            *LOGS_CUT,
        ),
        shares=("log",),
    ),
    GapRule(
        "group-behind",
        _group_progress,
        _GROUP
        + " has committed {partition} up to offset {final}, and the last input there is at offset {last}, "
        "though the stage is recorded as having processed all of its inputs",
        where=lambda row: (
            not _is_beyond_the_end(row)
            and row["final"] is not None
            and row["final"] <= row["last"]
            and row["drained"]
        ),
        subject="progress of {group} in {partition}",
        remedy="{remedy}",
        follows_from=("offsets-empty", *NO_LAST_RECORD, *LOGS_CUT),
    ),
)


def _lost_markers(evidence: RunEvidence) -> Iterator[Row]:
    """Yield how many transactions lack markers, though the transaction log and all their partitions are stored."""
    numbers = evidence.numbers
    rows = [row for row in evidence.partitions if row["topic"] == TRANSACTIONS_TOPIC]
    whole = bool(rows) and all(row["logged"] and not row["compacted"] for row in rows)
    lost = numbers["spans_here"] - numbers["spans_whole"]
    if whole and not evidence.run.journaled and lost > 0:
        yield {"lost": lost, "ended": numbers["spans_ended"]}


MARKERS: tuple[GapRule[RunEvidence], ...] = (
    GapRule(
        "markers-not-identified",
        _lost_markers,
        NOT_IDENTIFIED,
        subject=BY_MARKERS,
        follows_from=LOGS_CUT,
    ),
)
RULES = (*NOTHING_DONE, *MARKERS, *GROUPS)
