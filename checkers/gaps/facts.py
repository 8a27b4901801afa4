"""Gather the facts of each run that say whether its evidence is complete, for the rules of `checkers.gaps.registry`.

Most facts are counted in the one pass of `checkers.stored.tally`. Facts that need a join are queried only if the counts
show that there is something to find. The rules about counts that must be zero are here too (`AGREEMENTS`).
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.gaps.agreement import recorded_contradictions
from checkers.gaps.rule import Fact, GapRule, RunEvidence
from checkers.spark.frames import broadcast, local_rows
from checkers.stored.broker_log import COMPLETE, PREPARED
from checkers.stored.inputs import MISSING_OUTPUTS
from checkers.stored.log_transactions import (
    FROM_THE_START,
    count_doubtful_producers,
    count_markers,
    count_merged_transactions,
    count_shared_producers,
)
from checkers.stored.operations import CUT_OFF, JOURNAL_OF, OPERATION_OF
from checkers.stored.sources import Sources
from checkers.stored.tables import Tables
from checkers.stored.tally import Row, TableQuery, Tally
from harness.model.promises import OFFSETS_TOPIC
from harness.model.vocabulary import Fate, Role
from harness.results.reasons import ReasonCode


@dataclass(frozen=True)
class Agreement:
    """A condition for which no run leaves a row of a shared table, because two places would disagree."""

    name: str  # of the count
    table: str  # a field of `checkers.stored.tables.Tables`
    where: str  # Spark SQL over its columns; null counts as false
    places: tuple[str, ...]  # the recorded tables that state the fact
    text: str  # the sentence, over `count` and (in a table that is counted by partition) `partition`
    lost: bool = False  # the first place only lacks rows

    @property
    def rule(self) -> GapRule[RunEvidence]:
        """The rule about the number of rows."""
        return GapRule(
            self.name.replace("_", "-"),
            self._counts,
            self.text,
            where=lambda row: row["count"],
            subject=self.name,
            tables=self.places,
            code=ReasonCode.INCOMPLETE_EVIDENCE if self.lost else ReasonCode.CONTRADICTORY_EVIDENCE,
            only_new=self.lost,
        )

    def _counts(self, evidence: RunEvidence) -> Iterable[Row]:
        if self.table in BY_PARTITION:
            return [{"partition": row["name"], "count": row.get(self.name, 0)} for row in evidence.partitions]
        return [{"count": evidence.numbers[self.name]}]


_ROWS = "{count:offset} of {partition}"
AGREEMENTS = (
    *(
        Agreement(
            f"{name}_twice", "log_entries", f"{name}_twice", (table,), f"the table {table} has {_ROWS} twice"
        )
        for name, table in (("log", "batches"), ("record", "records"), ("commit", "offsets"))
    ),
    Agreement(
        "commit_of_another",
        "log_entries",
        "commit is not null and held and (commit.producer_id != producer_id or commit.epoch != epoch "
        "or commit.transactional != (fate != 'plain'))",
        ("offsets", "batches"),
        f"the tables offsets and batches name different producers, epochs or transactions for {_ROWS}",
    ),
    Agreement(
        "commit_without_batch",
        "log_entries",
        "commit is not null and logged and not held",
        ("batches", "offsets"),
        f"the table offsets has offset commits where the table batches has no batch: {_ROWS}",
        lost=True,
    ),
    Agreement(
        "completed_partitions",
        "states",
        f"state in {COMPLETE} and size(tps) > 0",
        ("transactions",),
        "the table transactions has complete transactions that still have partitions: {count:row}",
    ),
    Agreement(
        "preparations_differ",
        "states",
        f"state in {PREPARED} and before.state = 'Ongoing' and (before.producer_id != producer_id "
        "or array_sort(before.tps) != array_sort(tps))",
        ("transactions",),
        "two states of a transaction in the table transactions do not agree on its producer or partitions: {count:row}",
    ),
    Agreement(
        "partial_states",
        "states",
        "state is null or state != 'Tombstone' and (producer_id is null or epoch is null or tps is null)",
        ("transactions",),
        "the table transactions has states of which a part is missing: {count:row}",
    ),
    Agreement("ops_twice", "operations", "twice", ("ops",), "the table ops has {count:row} twice"),
    Agreement(
        "send_of_another",
        "operations",
        "exists(records, r -> not startswith(r.value, concat(operation.name, ':')))",
        ("sends", "ops"),
        "the table sends gives records to operations that their values do not name: {count:operation}",
    ),
    Agreement("sent_twice", "attempts", "twice", ("sends",), "the table sends has {count:row} twice"),
    Agreement(
        "sources_differ",
        "attempts",
        # A program may copy headers of Fencepost into other topics. If the digest differs, `corrupt` finds it.
        "exists(positions, p -> p.topic = send.topic and p.correlation_key is null and p.digest = send.digest and not ("
        "coalesce(p.output_name, '') = coalesce(send.output_name, '') and array_sort(coalesce(p.inputs, array())) = "
        "array_sort(coalesce(send.inputs, array()))))",
        ("sends", "records"),
        "the tables sends and records name different inputs or output names for {count:record}",
    ),
)
"""Rules over shared tables. Their names are those of counts."""
BY_PARTITION = frozenset({"log_entries"})
"""The tables whose rows are counted by partition."""


def conditions_of(table: str) -> dict[str, str]:
    """Return the conditions of the rules over a shared table, by name."""
    return {rule.name: rule.where for rule in AGREEMENTS if rule.table == table}


RULES = tuple(agreement.rule for agreement in AGREEMENTS)

ENDS = ("committed", "aborted", "open")
"""How a transaction may have ended, if its client does not know it. If it has none of these ends, its end is not
known.
"""


TIMED_OUT = "state = 'PrepareAbort' and update_ms >= start_ms + timeout_ms"
"""A transaction that its coordinator aborted because it had been open for too long."""
_IN_REACH = "offset >= ru_first and offset < ru_next and not compacted"
POSITIONS = {
    "found": "found",
    "held": "held",
    "delivered": "delivered",
    "read": "delivered and not sentinel",
    "consumed": "consumed",
    "visible": "visible and not sentinel",
    "unread": f"held and not found and {_IN_REACH}",
    "beyond": "held and ru_end and offset >= ru_next",
    "read_not_in_log": "found and not held and covered",
    "known_to_be_gone": "covered and not held and (found or size(acks) > 0)",
    "commits": "commit is not null",
    "unattributed_offsets": f"held and covered and topic = '{OFFSETS_TOPIC}' and fate != '{Fate.PLAIN.value}' "
    "and commit is null",
    "stable": "visible and not sentinel and coalesce(offset < first_open, true)",
    "stable_inputs": "visible and is_input and not sentinel and coalesce(offset < first_open, true)",
    **conditions_of("log_entries"),
    "named_by_some": "named_by_some",
    "inputs": "visible and is_input and not sentinel",
    "outputs": "visible and size(inputs) > 0",
    "outputs_without_key": "visible and output_name is not null and size(inputs) = 1 and coalesce(key, '') = ''",
}
"""Conditions on the rows of `log_entries`, each counted by partition."""
_TXN = "operation.f = 'txn'"
_WHOLE = f"{_TXN} and settled = 'committed'"
_WRITES = "operation.f != 'poll' and settled = 'committed'"
_NO_RECORDS, _NO_OFFSETS = "size(records) = 0", "(size(claims) = 0 and size(commits) = 0)"
OPERATIONS = {
    "ops": "true",
    **{outcome: f"operation.outcome = '{outcome}'" for outcome in ("ok", "fail", "info")},
    "committed": _WHOLE,
    "aborted": f"{_TXN} and settled = 'aborted'",
    **{f"info_{end}": f"operation.outcome = 'info' and {_TXN} and settled = '{end}'" for end in ENDS},
    "empty": f"{_WHOLE} and {_NO_RECORDS} and {_NO_OFFSETS}",
    "offsets_only": f"{_WHOLE} and {_NO_RECORDS} and not {_NO_OFFSETS}",
    "outputs_only": f"{_WHOLE} and not {_NO_RECORDS} and {_NO_OFFSETS}",
    "effective": _WRITES,
    "effective_of_stages": f"{_WRITES} and operation.stage is not null",
    "acknowledged": f"{_TXN} and reported_end = 'committed'",
    "claiming": "reported_end = 'committed' and exists(claims, c -> c.group is not null)",
    "claiming_outside": "transactional and reported_end = 'committed' and exists(claims, "
    "c -> array_contains(outside_groups, c.group))",
    "fenced": "operation.fenced",
    "polls_within": "operation.txn is not null",
    "of_several": f"{_WHOLE} and size(claims) > 1",
    **conditions_of("operations"),
}
"""Conditions on the rows of `operations` other than initialisations, each counted."""
ATTEMPTS = {
    "sent": "send is not null",
    "stray": "send is null and value is not null",
    **conditions_of("attempts"),
}
"""Conditions on the rows of `attempts`, each counted. sent: a journal has a send of the value; stray: no journal has
one.
"""


LOG_TRANSACTIONS = {
    "spans_committed": "decided = 'commit'",
    "spans_whole": "whole",
    "spans_compared": "size(reads) > 0 and exists(records, r -> size(r.inputs) > 0)",
}
"""Conditions on the rows of `log_transactions`, each counted. spans_whole: all markers of the transaction are known;
spans_compared: one of its outputs is joined to an input."""
_ENDED = "size(before.tps) > 0 and state"
STATES = {
    "timed_out": TIMED_OUT,
    "spans_ended": f"{_ENDED} in {COMPLETE}",
    "log_committed": f"{_ENDED} = 'CompleteCommit'",
    "log_aborted": f"{_ENDED} = 'CompleteAbort'",
    **conditions_of("states"),
}
"""Conditions on the rows of `states`, each counted: transactions that timed out or are complete."""


COUNTED: Mapping[str, Mapping[str, str]] = {
    "attempts": ATTEMPTS,
    "log_transactions": LOG_TRANSACTIONS,
    "markers": {"doubtful": "doubtful"},
    "states": STATES,
}
"""By shared table: the conditions of which only the rows are counted."""
FACT_TABLES = ("log_entries", "operations", "inputs", *COUNTED)
"""The shared tables whose rows are counted."""


def facts_query(tables: Tables, table: str) -> TableQuery | None:
    """Return what to count of a shared table; None: nothing."""
    if table == "log_entries":
        ends = tables.tps.select("run", "tp", "ru_first", "ru_next", "ru_end", "compacted")
        entries = tables.log_entries.join(broadcast(ends), on=["run", "tp"], how="inner")
        return TableQuery(table, entries, POSITIONS, by_tp="tp", sums={"observed": "observed"}, edge="offset")
    if table == "operations":
        condition = {
            name: f"operation.f != 'init' and ({condition})" for name, condition in OPERATIONS.items()
        }
        return TableQuery(table, tables.operations, condition)
    if table == "inputs":
        return TableQuery(table, tables.inputs, {}, sums={"expected": "size(expected)", "sums": "size(adds)"})
    counted = COUNTED.get(table)
    return None if counted is None else TableQuery(table, getattr(tables, table), counted)


def gather_facts(
    s: Sources, tables: Tables, counts: Tally, joined: Sequence[tuple[int, Fact]]
) -> dict[int, list[Fact]]:
    """Return the facts of each run, as pairs of kind and row. Columns that are null are left out.

    `joined`: the result of `query_joins`.
    """
    facts: dict[int, list[Fact]] = defaultdict(list)
    groups = local_rows(tables.groups)
    for kind, rows in {**tables.facts, "group": _groups(tables, groups), "progress": groups}.items():
        for row in rows:
            counted = _of_partition(row, tables.raw, counts) if kind == "partition" else {}
            facts[row["run"]].append((kind, _without_nulls({**row, **counted})))
    for run, contradiction in recorded_contradictions(s):
        facts[run].append(contradiction)
    for run in {run for run, _ in (*tables.raw.counts, *counts.counts)}:
        facts[run].append(("numbers", _numbers(run, tables.raw, counts)))
        facts[run] += [("due", {"stage": stage}) for stage in sorted(tables.raw.texts(run, "expected"))]
    for run, fact in (*joined, *_collected(_joins_if_any(s, tables, counts))):
        facts[run].append(fact)
    return dict(facts)


def query_joins(s: Sources, tables: Tables) -> list[tuple[int, Fact]]:
    """Return by run the facts that need a join in every run."""
    return _collected(
        [
            _rows(_unknown_markers(s, tables), "markers"),
            _rows(count_merged_transactions(tables.operations, tables.markers), "merged"),
            _rows(count_shared_producers(tables.states), "producers"),
            _rows(_disorder(s), "disorder"),
        ]
    )


def _collected(parts: Sequence[DataFrame]) -> list[tuple[int, Fact]]:
    rows = reduce(DataFrame.unionByName, parts).collect() if parts else []
    return [(row["run"], (row["kind"], json.loads(row["detail"]))) for row in rows]


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_nulls(value) for name, value in value.items() if value is not None}
    return [_without_nulls(element) for element in value] if isinstance(value, list) else value


def _of_partition(row: Mapping[str, Any], raw: Tally, counts: Tally) -> dict[str, int]:
    """Return the counts of one partition."""
    run, tp = row["run"], row["tp"]
    entries, states = counts.in_tp(run, "log_entries", tp), raw.in_tp(run, "transactions", tp)
    due = raw.in_tp(run, "expected", tp)
    partition_counts = {} if entries is None else {name: entries[name] for name in (*POSITIONS, "observed")}
    if (stable := counts.edge(run, "log_entries", tp, "stable")) is not None:
        partition_counts |= {"first_stable": stable[0], "last_stable": stable[1]}
    partition_counts["expected"] = 0 if due is None else due["rows"]
    return partition_counts if states is None else {**partition_counts, "states": states["rows"]}


def _numbers(run: int, raw: Tally, counts: Tally) -> dict[str, int]:
    """Return the counts of the whole run."""
    operations, values = counts.of(run, "operations"), counts.of(run, "attempts")
    inputs, assignments = counts.of(run, "inputs"), raw.of(run, "assignments")
    return {
        **{name: operations[name] for name in OPERATIONS},
        "sent": values["sent"],
        "values": values["rows"],
        "expected": inputs["expected"],
        "sums": inputs["sums"],
        **{name: values[name] for name in conditions_of("attempts")},
        **{name: counts.of(run, "states")[name] for name in STATES},
        **{name: counts.of(run, "log_transactions")[name] for name in LOG_TRANSACTIONS},
        "assignments": assignments["rows"],
        "given_up": assignments["given_up"],
        "within": raw.of(run, "offsets")["within"],
        **{table: raw.of(run, table)["rows"] for table in ("transactions", "claims")},
    }


def _joins_if_any(s: Sources, tables: Tables, counts: Tally) -> list[DataFrame]:
    """Return the queries of facts that need a join only if the counts show that there is something to find: run, kind,
    detail (JSON).
    """
    parts = []
    if counts.any_row_matches("operations", "polls_within"):
        parts.append(_rows(_read_within(s, tables), "within"))
    if counts.any_row_matches("operations", "of_several") and _reads_several(tables):
        parts.append(_rows(_several_topics(tables), "shapes"))
    if counts.any_row_matches("markers", "doubtful"):
        parts.append(_rows(count_doubtful_producers(tables.markers), "doubtful"))
    if counts.any_row_matches("attempts", "stray"):
        parts += [_rows(_unknown_journals(tables), "values"), _rows(_cut_journals(tables), "cut")]
    if any(row["journaled"] is False for row in tables.facts["stage"]):
        parts += [_rows(_stored_spans(tables), "spans"), _rows(_inputs_left(s, tables), "left")]
    return parts


def _unknown_markers(s: Sources, tables: Tables) -> DataFrame:
    """By partition, the producers with more markers than transactions in the transaction log, and the number of excess
    markers.

    `checkers.gaps.logs` leaves out the markers of other users of a shared cluster.
    """
    return (
        count_markers(s, tables.tps, tables.states)
        .where("markers > ended")
        .groupBy("run", "tp")
        .agg(
            F.expr("count(1) as producers"),
            F.expr("min(producer_id) as producer_id"),
            F.expr("sum(markers - ended) as markers"),
        )
    )


def _disorder(s: Sources) -> DataFrame:
    """By partition, how many records the final read-committed reader received out of order."""
    previous_offset = "lag(offset) over (partition by run, tp order by op, n)"
    return (
        s["polls"]
        .where(f"role = '{Role.FINAL.value}'")
        .selectExpr("run", "tp", f"offset <= {previous_offset} as backwards")
        .where("backwards")
        .groupBy("run", "tp")
        .agg(F.expr("count(1) as backwards"))
    )


def _rows(frame: DataFrame, kind: str) -> DataFrame:
    body = ", ".join(column for column in frame.columns if column != "run")
    return frame.selectExpr("run", f"'{kind}' as kind", f"to_json(struct({body})) as detail")


def _groups(tables: Tables, groups: Sequence[Row]) -> list[Row]:
    """The groups of stages with commits in a partition, whose start there is not known: run, group, tp, final."""
    topics = {(row["run"], row["tp"]): row["topic"] for row in tables.facts["partition"]}
    read = {
        (row["run"], row["group"], row["in_topic"])
        for row in tables.facts["stage"]
        if row["group"] is not None
    }
    return [
        {name: row[name] for name in ("run", "group", "tp", "final")}
        for row in groups
        if row["first"] is None
        and (row["final"] or 0) > 0
        and (row["run"], row["group"], topics.get((row["run"], row["tp"]))) in read
    ]


def _read_within(s: Sources, tables: Tables) -> DataFrame:
    """By run, how many records of other processes committed transactions polled: run, read_within."""
    committed = tables.operations.where("settled = 'committed'").selectExpr("run", "op as txn")
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


def _stored_spans(tables: Tables) -> DataFrame:
    """By run, how many completed transactions have the whole logs of all their partitions stored: run, spans_here."""
    partitions = (
        tables.tps.where(f"logged and {FROM_THE_START}").groupBy("run").agg(F.expr("collect_set(tp) as here"))
    )
    ended = tables.states.where(STATES["spans_ended"]).join(broadcast(partitions), on="run", how="left")
    return ended.groupBy("run").agg(*_counts({"spans_here": "size(array_except(before.tps, here)) = 0"}))


def _inputs_left(s: Sources, tables: Tables) -> DataFrame:
    """By stage without journals, how many inputs lack an expected output, though the committed offset is not above them
    or is not known.
    """
    stages = s["stages"].where("journaled = false").select("run", "stage").distinct()
    return (
        tables.inputs.where(f"visible and size({MISSING_OUTPUTS}) > 0")
        .selectExpr("run", "tp", "offset", f"explode({MISSING_OUTPUTS}) as e")
        .selectExpr("run", "tp", "offset", "e.stage", "e.group")
        .join(broadcast(stages), on=["run", "stage"], how="left_semi")
        .join(broadcast(tables.groups), on=["run", "group", "tp"], how="left")
        .where("final is null or offset >= final")
        .groupBy("run", "stage")
        .agg(F.expr("count(distinct tp, offset) as inputs"))
    )


def _reads_several(tables: Tables) -> bool:
    """True if any stage reads several topics."""
    read = {(row["run"], row["stage"], row["in_topic"]) for row in tables.facts["stage"]}
    return len(read) > len({(run, stage) for run, stage, _ in read})


def _several_topics(tables: Tables) -> DataFrame:
    """By run, the number of committed transactions with inputs of several topics."""
    inputs = (
        tables.operations.where("operation.f = 'txn' and settled = 'committed' and size(claims) > 1")
        .selectExpr("run", "op", "explode(claims) as claim")
        .selectExpr("run", "op", "claim.tp")
        .join(broadcast(tables.tps.select("run", "tp", "topic")), on=["run", "tp"], how="inner")
    )
    by_operation = inputs.groupBy("run", "op").agg(F.expr("count(distinct topic) as topics"))
    return by_operation.groupBy("run").agg(*_counts({"several_topics": "topics > 1"}))


def _unknown_journals(tables: Tables) -> DataFrame:
    """By run, up to five journals that values name, but that are not stored."""
    stray = tables.attempts.where("send is null").selectExpr("run", f"{JOURNAL_OF} as journal")
    return (
        stray.where("journal != ''")
        .join(broadcast(tables.journals.select("run", "journal")), on=["run", "journal"], how="left_anti")
        .groupBy("run")
        .agg(F.expr("slice(array_sort(collect_set(journal)), 1, 5) as unknown_journals"))
    )


def _cut_journals(tables: Tables) -> DataFrame:
    """By run, up to five journals of killed processes that lost their last lines.

    A visible record names the last operation of the journal, or a later one, and the journal does not announce it.
    """
    return (
        tables.attempts.where("send is null and exists(positions, p -> p.visible)")
        .selectExpr("run", f"{JOURNAL_OF} as journal", f"{OPERATION_OF} as number")
        .join(broadcast(tables.journals), on=["run", "journal"])
        .where(f"{CUT_OFF} and unbroken")
        .groupBy("run")
        .agg(F.expr("slice(array_sort(collect_set(journal)), 1, 5) as cut_journals"))
    )


def _counts(conditions: Mapping[str, str]) -> list[Column]:
    """Return for each condition a count of the rows that match, under the name of the condition."""
    return [F.expr(f"count(if({condition}, 1, null)) as {name}") for name, condition in conditions.items()]
