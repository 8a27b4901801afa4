"""Small facts of each run, counted in the job of the findings, that say whether the evidence is whole.

`checkers.judging.completeness` holds them against each other.
"""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.stored.inputs import OFFSETS_TOPIC
from checkers.stored.producers import COMPLETE
from checkers.stored.sources import Sources
from checkers.stored.spans import FROM_THE_START
from checkers.stored.tables import Tables
from harness.history import Fate

Row = Mapping[str, Any]


def evidence(s: Sources, t: Tables) -> DataFrame:
    """Small facts of each run: run, kind, detail (JSON)."""
    parts = [
        _rows(_partitions(s, t), "partition"),
        _rows(t.journals, "journal"),
        _rows(
            s["ends"].select("run", "journal", "isolation", "tp", "next", "read", "sentinel_offset", "role"),
            "end",
        ),
        _rows(s["stages"], "stage"),
        _rows(_groups(s, t), "group"),
        _rows(s["expected"].select("run", "stage").distinct(), "due"),
        _rows(_operations(t), "operations"),
        *([] if t.spans is None else [_rows(_spans(t), "spans"), _rows(_left(s, t), "left")]),
        _rows(_values(t), "values"),
        _rows(_inputs(t), "inputs"),
        *(
            _rows(s[table].groupBy("run").agg(F.expr(f"count(1) as {table}")), table)
            for table in ("transactions", "claims")
        ),
        _rows(s["assignments"].groupBy("run").agg(*_counts(ASSIGNED)), "assignments"),
        _rows(_read_within(s, t), "within"),
        _rows(_several_topics(t), "shapes"),
        _rows(_timed_out(t), "shapes"),
        _rows(
            s["offsets"].groupBy("run").agg(F.expr("count(if(transactional, 1, null)) as within")), "offsets"
        ),
    ]
    united = parts[0]
    for part in parts[1:]:
        united = united.unionByName(part)
    return united


def _rows(frame: DataFrame, kind: str) -> DataFrame:
    body = ", ".join(column for column in frame.columns if column != "run")
    return frame.selectExpr("run", f"'{kind}' as kind", f"to_json(struct({body})) as detail")


def _partitions(s: Sources, t: Tables) -> DataFrame:
    in_reach = "offset >= ru_first and offset < ru_next and not compacted"
    counts = {
        "found": "found",
        "held": "held",
        "given": "given",
        "read": "given and not sentinel",
        "consumed": "consumed",
        "visible": "visible and not sentinel",
        "unread": f"held and not found and {in_reach}",
        "beyond": "held and ru_end and offset >= ru_next",
        "read_not_in_log": "found and not held and covered",
        "commits": "commit is not null",
        "untold_offsets": f"held and covered and topic = '{OFFSETS_TOPIC}' and fate != '{Fate.PLAIN.value}' "
        "and commit is null",
        "inputs": "visible and is_input and not sentinel",
        "outputs": "visible and size(inputs) > 0",
    }
    ends = t.tps.select("run", "tp", "ru_first", "ru_next", "ru_end", "compacted")
    counted = (
        t.positions.join(F.broadcast(ends), on=["run", "tp"], how="inner")
        .groupBy("run", "tp")
        .agg(*_counts(counts), F.expr("sum(observed) as observed"))
    )
    states = s["transactions"].groupBy("run", F.col("log_tp").alias("tp")).agg(F.expr("count(1) as states"))
    return t.tps.join(counted, on=["run", "tp"], how="left").join(
        F.broadcast(states), on=["run", "tp"], how="left"
    )


def _inputs(t: Tables) -> DataFrame:
    return t.inputs.groupBy("run").agg(
        F.expr("sum(size(expected)) as expected"), F.expr("sum(size(adds)) as sums")
    )


def _groups(s: Sources, t: Tables) -> DataFrame:
    """Groups of stages that have committed offsets of a partition, and of which nobody saw where they began."""
    of_stages = s["stages"].selectExpr("run", "group", "in_topic")
    read = t.tps.selectExpr("run", "tp", "topic as in_topic").join(
        F.broadcast(of_stages), on=["run", "in_topic"], how="inner"
    )
    unseen = t.groups.where("first is null and final > 0").select("run", "group", "tp", "final")
    return unseen.join(F.broadcast(read), on=["run", "group", "tp"], how="left_semi")


ASSIGNED = {"assignments": "true", "given_up": "not gained"}


def _read_within(s: Sources, t: Tables) -> DataFrame:
    """read_within: records of others that transactions were given by polls of theirs, and have committed."""
    committed = t.operations.where("settled = 'committed'").selectExpr("run", "op as txn")
    named = s["ops"].selectExpr("run", "op as txn", "name as own")
    return (
        s["ops"]
        .where("txn is not null")
        .select("run", "op", "txn")
        .join(committed, on=["run", "txn"], how="inner")
        .join(named, on=["run", "txn"], how="inner")
        .join(s["polls"].select("run", "op", "value"), on=["run", "op"], how="inner")
        .where("substring_index(value, ':', 2) != own")
        .groupBy("run")
        .agg(F.expr("count(1) as read_within"))
    )


ENDS = ("committed", "aborted", "open")
"""What may have become of a transaction whose client was not told; else nobody knows."""


def _operations(t: Tables) -> DataFrame:
    txn, writes = "operation.f = 'txn'", "operation.f != 'poll' and settled = 'committed'"
    whole = f"{txn} and settled = 'committed'"
    no_records, no_offsets = "size(records) = 0", "(size(claims) = 0 and size(commits) = 0)"
    counts = {
        "ops": "true",
        **{outcome: f"operation.outcome = '{outcome}'" for outcome in ("ok", "fail", "info")},
        "committed": f"{txn} and settled = 'committed'",
        "aborted": f"{txn} and settled = 'aborted'",
        **{f"info_{end}": f"operation.outcome = 'info' and {txn} and settled = '{end}'" for end in ENDS},
        "empty": f"{whole} and {no_records} and {no_offsets}",
        "offsets_only": f"{whole} and {no_records} and not {no_offsets}",
        "outputs_only": f"{whole} and not {no_records} and {no_offsets}",
        "effective": writes,
        "effective_of_stages": f"{writes} and operation.stage is not null",
        "acknowledged": f"{txn} and told = 'committed'",
        "claiming": "told = 'committed' and exists(claims, c -> c.group is not null)",
        "fenced": "operation.fenced",
    }
    return t.operations.where("operation.f != 'init'").groupBy("run").agg(*_counts(counts))


def _spans(t: Tables) -> DataFrame:
    """Transactions of which no journal tells; of how many is known which markers are theirs, how many there are, in
    how many an output is joined to an input, and of how many the log of every partition is here from its beginning.
    """
    assert t.spans is not None
    counts = {
        "spans_committed": "decided = 'commit'",
        "spans_aborted": "decided = 'abort'",
        "spans_whole": "whole",
        "spans_compared": "size(reads) > 0 and exists(records, r -> size(r.inputs) > 0)",
    }
    here = t.tps.where(f"logged and {FROM_THE_START}").groupBy("run").agg(F.expr("collect_set(tp) as here"))
    ended = t.states.where(f"state in {COMPLETE} and size(before.tps) > 0").join(
        F.broadcast(here), on="run", how="left"
    )
    ends = {"spans_ended": "true", "spans_here": "size(array_except(before.tps, here)) = 0"}
    return (
        t.spans.groupBy("run")
        .agg(*_counts(counts))
        .join(ended.groupBy("run").agg(*_counts(ends)), on="run", how="full")
    )


NOT_THERE = """filter(expected, e -> not exists(outputs,
    o -> o.visible and coalesce(o.slot = e.slot and o.topic = e.topic, false)))"""


def _left(s: Sources, t: Tables) -> DataFrame:
    """By stage without journals: the inputs that led to nothing, and that it is not known to have gone past."""
    stages = s["stages"].where("journaled = false").select("run", "stage").distinct()
    return (
        t.inputs.where(f"visible and size({NOT_THERE}) > 0")
        .selectExpr("run", "tp", "offset", f"explode({NOT_THERE}) as e")
        .selectExpr("run", "tp", "offset", "e.stage", "e.group")
        .join(F.broadcast(stages), on=["run", "stage"], how="left_semi")
        .join(F.broadcast(t.groups), on=["run", "group", "tp"], how="left")
        .where("final is null or offset >= final")
        .groupBy("run", "stage")
        .agg(F.expr("count(distinct tp, offset) as inputs"))
    )


def _timed_out(t: Tables) -> DataFrame:
    """Transactions that their coordinator has aborted because they had been open for too long."""
    late = "state = 'PrepareAbort' and update_ms >= start_ms + timeout_ms"
    return t.states.groupBy("run").agg(*_counts({"timed_out": late}))


def _several_topics(t: Tables) -> DataFrame:
    """Committed transactions with inputs of several topics."""
    inputs = (
        t.operations.where("operation.f = 'txn' and settled = 'committed' and size(claims) > 1")
        .selectExpr("run", "op", "explode(claims) as claim")
        .selectExpr("run", "op", "claim.tp")
        .join(F.broadcast(t.tps.select("run", "tp", "topic")), on=["run", "tp"], how="inner")
    )
    each = inputs.groupBy("run", "op").agg(F.expr("count(distinct topic) as topics"))
    return each.groupBy("run").agg(*_counts({"several_topics": "topics > 1"}))


def _values(t: Tables) -> DataFrame:
    stray = t.values.where("send is null").select(
        "run", F.regexp_extract("value", r"^(.+):\d+:\d+$", 1).alias("journal")
    )
    unknown = (
        stray.where("journal != ''")
        .join(F.broadcast(t.journals.select("run", "journal")), on=["run", "journal"], how="left_anti")
        .groupBy("run")
        .agg(F.expr("slice(array_sort(collect_set(journal)), 1, 5) as unknown_journals"))
    )
    sent = t.values.groupBy("run").agg(*_counts({"sent": "send is not null", "values": "true"}))
    return sent.join(unknown, on="run", how="left")


def _counts(of: Mapping[str, str]) -> list[Column]:
    """How many rows each condition holds for, under its name."""
    return [F.expr(f"count(if({condition}, 1, null)) as {name}") for name, condition in of.items()]
