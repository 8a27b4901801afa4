"""Check external histories: all of them together. The operations in a file are the only evidence.

`merge_history` merges the results of a run's tables and of its clients' history into one. The tables have the broker
logs, so their result decides wherever both checked the same anomaly. The history has the micro-operations of each
transaction in their order, so it alone decides about cycles. It also adds the order of polls and sends, and
transactions that received their own records: in the tables each poll is a separate operation, and polls within
transactions are missing.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
from msgspec import structs
from pyspark.sql import SparkSession

from checkers.checking.run_checks import CollectedFindings, collect
from checkers.checking.stored_runs import (
    BatchResults,
    check_in_parts,
    indeterminate_operations,
    with_cause,
    with_wording,
)
from checkers.external_tables import GRAPHS, WORDS, WR, ExternalTables
from checkers.findings import Findings, example_line
from checkers.histories.files import HistoryFile, Url
from checkers.histories.names import shown
from checkers.histories.processes import TaskProcesses
from checkers.histories.read_files import Histories, read_texts
from checkers.histories.read_folders import read_folders
from checkers.histories.table import HistoryTable, Numbers, count_operations, kinds_passed_over, lookup
from checkers.histories.tables import make_external, records_of
from checkers.registry import ALLOWED_WITH_SUBSCRIBE, CHECKERS, HISTORY_CHECKERS, INDETERMINATE, checker_of
from checkers.spark.errors import translate_spark_errors
from checkers.spark.frames import freeing_checkpoints
from checkers.spark.session import StartingSpark
from harness.common.errors import FencepostError, UnreadableInput
from harness.common.wording import join_words, number, printable
from harness.model.promises import HISTORY_FILE
from harness.record.history_form import NAMES, NAMES_FROM, OPS, OUTCOMES
from harness.results.example import Dependency, Part, Record
from harness.results.reasons import EXTERNAL_ONLY, Reason, ReasonCode
from harness.results.verdict import CALLER, EXAMPLES, AnomalyFindings, CheckResult

OPERATION_COLUMNS = ("op", "process", "f", "outcome", "invoked", "invoke_ns", "complete_ns")
OPERATION = pa.schema([OPS.field(name) for name in ("run", *OPERATION_COLUMNS)])
CYCLES = {graph.name for graph in GRAPHS}
TOO_LARGE = Reason(
    ReasonCode.GRAPH_TOO_LARGE,
    "only parts of the dependency graph were searched: edges that go back in time connect millions of "
    "operations, more than one task can take",
)
NO_OPERATIONS = "the history has no operation of a numbered process: nothing was read"
NO_READ = "no ok operation received a record: nothing was read"
CHECKED_KINDS = ("send", "poll", "txn")
KINDS_SHOWN = 6
"""A reason names at most this many kinds of operations that were passed over, the most frequent first."""
KIND_CHARACTERS = 40
SAME_POSITION = (
    "micro.parquet has two records of one key at the same position (op, polled, n): a row is there twice, or the "
    "order of the records is not known"
)
NO_EVIDENCE = Reason(
    ReasonCode.EXTERNAL_HISTORY, "an external history names no markers, no inputs and no final readers"
)
ORDER = "order"
"""The family of anomalies that the history may add, if the tables found none."""
WITHIN = frozenset({"precommitted-read"})
"""Anomalies of a single operation that the history may add, if the tables found none."""
KEY = re.compile(r"(.+)/([0-9]{1,9})")
"""How a run's history names a key: topic and partition."""


def check_files(
    spark: SparkSession | StartingSpark,
    files: Mapping[int, Path | Url],
    allowed: frozenset[str],
    phase: Callable[[str], None] = lambda name: None,
) -> Mapping[int, CheckResult | FencepostError]:
    """Check files and folders of tables, all together. If that fails because of one, only that one gets an error.

    Args:
        spark: a session, or a Spark that is starting. On this machine, most of the work is done before it is needed
        files: by number, the path of a history, or the URL of a folder
        allowed: anomalies that the caller permits
        phase: is called with the name of each step when it begins

    Returns:
        By number, the result, or the error that prevented one.
    """
    histories = [HistoryFile(run, path) for run, path in files.items()]
    if not histories:
        return {}
    with TaskProcesses() as pool:
        return check_in_parts(histories, partial(_check_together, spark, pool, allowed, phase))


def _check_together(
    spark: SparkSession | StartingSpark,
    pool: TaskProcesses,
    allowed: frozenset[str],
    phase: Callable[[str], None],
    histories: Sequence[HistoryFile],
) -> BatchResults:
    """Check all histories together. Raises only subclasses of `FencepostError`."""
    phase("reading")

    def session() -> SparkSession:
        return spark.session() if isinstance(spark, StartingSpark) else spark

    # Only a command that ends after its check passes a Spark that is still starting.
    freeing: AbstractContextManager[None] = (
        nullcontext() if isinstance(spark, StartingSpark) else freeing_checkpoints(spark)
    )
    with translate_spark_errors(), freeing:
        local = (
            spark.local
            if isinstance(spark, StartingSpark)
            else str(spark.sparkContext.master).startswith("local")
        )
        folders = [history for history in histories if history.is_folder]
        texts = [history for history in histories if not history.is_folder]
        parts = []
        if texts:
            parts.append(read_texts(texts, pool, None if local else session()))
        if folders:
            parts.append(read_folders(session, folders, pool if local else None))
        read = reduce(Histories.with_more, parts)
        readable = [history.run for history in histories if history.run not in read.errors]
        checked = {}
        if readable:
            checked = check_histories(
                read.ops, read.micro, read.names, readable, allowed=allowed, phase=phase, session=session
            )
    unread = {run: UnreadableInput(str(error)) for run, error in read.errors.items()}
    results = (result for result in checked.values() if isinstance(result, CheckResult))
    crashed = any(set(result.broken) - {ReasonCode.NOTHING_READ} for result in results)
    return BatchResults({**checked, **unread}, crashed)


def check_histories(
    ops: HistoryTable,
    micro: HistoryTable,
    names: HistoryTable,
    runs: Sequence[int],
    *,
    allowed: frozenset[str] = frozenset(),
    examples: int = EXAMPLES,
    phase: Callable[[str], None] = lambda name: None,
    session: Callable[[], SparkSession] = SparkSession.active,
) -> dict[int, CheckResult | UnreadableInput]:
    """Check external histories.

    Args:
        runs: the numbers of the histories
        allowed: anomalies that the caller permits
        examples: how many examples of each anomaly are kept
        phase: is called with the name of each phase when it begins
        session: waits for Spark. It is called when tables of local files need Spark for the first time

    Returns:
        By number, the result, or the error if the tables of a history cannot be used.
    """
    numbers = count_operations(ops)
    # Also after a failure the block waits for its thread, so a second check of the histories has the processes alone.
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="cycles") as beside:
        tables = make_external(ops, micro, numbers, examples, beside, phase=phase, session=session)
        phase("cycles and the other checks")
        findings = collect(tables, (*HISTORY_CHECKERS, INDETERMINATE), examples)
        too_large = {} if CYCLES & findings.crashed.keys() else tables.too_large
    phase("evidence")
    _add_records(numbers, tables)
    _explain(tables, ops, names, findings.rows)
    counts = {run: numbers.get(run, Counter()) for run in runs}
    unread = {run for run, count in counts.items() if not count["read"] and count["passed_over"]}
    kinds = kinds_passed_over(ops, unread)
    return {
        run: UnreadableInput(SAME_POSITION)
        if count["in_place_of_another"]
        else _check_result(
            run, findings, count, kinds.get(run, Counter()), allowed, too_large.get(run, frozenset())
        )
        for run, count in counts.items()
    }


def _add_records(numbers: Numbers, tables: ExternalTables) -> None:
    """Add the counts of records. Each task has counted the records of its keys."""
    for row in tables.counted.toArrow().to_pylist():
        numbers[row.pop("run")].update(row)


def _check_result(
    run: int,
    findings: CollectedFindings,
    numbers: Counter[str],
    kinds: Counter[str],
    allowed: frozenset[str],
    kinds_left_out: Set[int],
) -> CheckResult:
    """Return the result of one history. `kinds`: the operations that were passed over, if nothing was read."""
    anomalies: dict[str, AnomalyFindings] = {}
    permitted = dict.fromkeys(allowed, CALLER)
    if numbers["subscribes"]:
        permitted |= dict.fromkeys(ALLOWED_WITH_SUBSCRIBE, "subscribe")
    for checker in HISTORY_CHECKERS:
        for name in checker.anomalies:
            parts = [
                findings.rows[key] for key in ((run, name, False), (run, name, True)) if key in findings.rows
            ]
            if parts:
                by = "Kafka" if name in checker.always_allowed else permitted.get(name)
                counted = AnomalyFindings(
                    count=sum(part.count for part in parts),
                    examples=[example for part in parts for example in part.examples],
                    allowed=by is not None,
                    allowed_by=by,
                )
                anomalies[name] = with_wording(name, counted, example_line)
    checked = {name for checker in HISTORY_CHECKERS for name in checker.anomalies}
    broken = dict(findings.crashed)
    if not numbers["read"]:
        broken[ReasonCode.NOTHING_READ] = _nothing_read(numbers, kinds)
    return CheckResult(
        anomalies={name: with_cause(run, name, anomalies, findings.caused) for name in anomalies},
        not_checked={
            name: NO_EVIDENCE for checker in CHECKERS for name in checker.anomalies if name not in checked
        }
        | {graph.name: TOO_LARGE for graph in GRAPHS if graph.kinds & kinds_left_out},
        broken=broken,
        checked=[name for checker in HISTORY_CHECKERS for name in checker.anomalies],
        coverage={
            "outputs": numbers["records"],
            "committed": numbers["committed"],
            "aborted": numbers["aborted"],
        },
        stats={name: numbers[name] for name in ("ops", "ok", "fail", "info", "open", "passed_over")},
        unsettled=indeterminate_operations(run, findings.rows),
    )


def _nothing_read(numbers: Counter[str], kinds: Counter[str]) -> Reason:
    """Say why a history is unknown in which no ok operation received a record."""
    if not numbers["ops"]:
        return Reason(ReasonCode.NOTHING_READ, NO_OPERATIONS)
    over = numbers["passed_over"]
    if not over:
        return Reason(ReasonCode.NOTHING_READ, NO_READ)
    most_frequent = sorted(kinds.items(), key=lambda kind: (-kind[1], kind[0]))[:KINDS_SHOWN]
    parts = [f"{number(many)} {printable(f, KIND_CHARACTERS)}" for f, many in most_frequent]
    if rest_count := over - sum(many for _, many in most_frequent):
        parts.append(f"and {number(rest_count)} of other kinds")
    passed_over = f"its operations were passed over: {', '.join(parts)}"
    if over < numbers["ops"]:
        passed_over = (
            f"of its {number(numbers['ops'])} operations {number(over)} were passed over: {', '.join(parts)}"
        )
    return Reason(
        ReasonCode.NOTHING_READ,
        f"{NO_READ}; {passed_over}; Fencepost checks {join_words(CHECKED_KINDS)}",
        remedy=f"record what clients sent and polled as operations {join_words(CHECKED_KINDS)} (docs/histories.md)",
    )


def _explain(
    tables: ExternalTables,
    ops_table: HistoryTable,
    names: HistoryTable,
    rows: Mapping[tuple[int, str, bool], Findings],
) -> None:
    """Add the operations, and the original keys and values, to the examples, in place."""
    examples = [(run, example) for (run, _, _), finding in rows.items() for example in finding.examples]
    _add_records_of_steps(tables, [part for _, example in examples for part in example.parts()])
    parts = [(run, part) for run, example in examples for part in example.parts()]
    operations = lookup(
        ops_table,
        OPERATION,
        "op",
        {(run, part.facts["op"]) for run, part in parts if part.get("op") is not None},
    )
    named = ((run, part.get(name)) for run, part in parts for name in ("key", "value"))
    ids = {(run, id_) for run, id_ in named if isinstance(id_, int) and id_ >= NAMES_FROM}
    texts = lookup(names, NAMES, "id", ids)
    for run, part in parts:
        for name in ("key", "value"):
            if text := texts.get((run, part.get(name))):
                part.facts[name] = _named(text["text"])
        if operation := operations.get((run, part.get("op"))):
            part.facts |= {
                column: operation[column] for column in OPERATION_COLUMNS if operation[column] is not None
            }
            part.facts["outcome"] = OUTCOMES[operation["outcome"]]
    for _, example in examples:
        steps = example.facts.get("cycle")
        if steps is not None:
            example.facts["steps"] = [_describe_step(step) for step in steps]


def _add_records_of_steps(tables: ExternalTables, parts: Sequence[Part]) -> None:
    """Add to each step of a cycle the records that connect its operations."""
    steps = [part for part in parts if "reference" in part.facts]
    records = records_of(tables.packs, {step.facts["reference"] for step in steps})
    for step in steps:
        step_records = records[step.facts.pop("reference")]
        for name in ("record",) if step.get("kind") == WORDS[WR] else ("record", "following"):
            facts = {part: value for part, value in step_records[name].items() if value is not None}
            step.facts[name] = Record(name, facts)


def _named(text: str | None) -> Any:
    try:
        return json.loads(text or "")
    except (ValueError, RecursionError) as error:
        raise UnreadableInput(f"names.parquet has a text that is no JSON: {shown(text)}") from error


def _describe_step(step: Dependency) -> str:
    """Describe a step of a cycle: which operation depends on which, and why."""
    earlier, later = (f"T{step.facts[end].get('op')}" for end in ("from", "to"))
    kind = step.get("kind")
    if kind == "process":
        return f"{later} came after {earlier} in the same process"
    if kind == "realtime":
        return f"{later} was invoked after {earlier} had completed"
    record = step.facts["record"]
    key, value = json.dumps(record.get("key")), json.dumps(record.get("value"))
    if kind == "wr":
        return f"{later} read {value} from {key}, which {earlier} wrote"
    following = json.dumps(step.facts["following"].get("value"))
    if kind == "ww":
        return f"{later} wrote {following} to {key}, next after {value}, which {earlier} wrote"
    return f"{earlier} read {value} from {key} and not {following}, next after it, which {later} wrote"


def history_damaged(why: str) -> Reason:
    """Return the reason for a history that the run promised and that cannot be used."""
    text = f"the run promised {HISTORY_FILE}, and {why}"
    return Reason(ReasonCode.HISTORY_DAMAGED, text, HISTORY_FILE)


def merge_history(
    stored: CheckResult, history: CheckResult | Reason, allowed: Mapping[str, str]
) -> CheckResult:
    """Merge both results.

    Args:
        stored: the result of the tables
        history: the result of the history, or why there is none
        allowed: anomalies that are permitted, and by whom
    """
    if isinstance(history, Reason):
        lacking = {name: history for name, reason in stored.not_checked.items() if reason == EXTERNAL_ONLY}
        return replace(
            stored,
            not_checked={**stored.not_checked, **lacking},
            broken={**stored.broken, HISTORY_FILE: history},
        )
    only_history = [name for name in history.checked if stored.not_checked.get(name) == EXTERNAL_ONLY]
    added = [name for name in history.checked if name in only_history or _history_decides(name, stored)]
    findings = {
        name: _with_keys_of_runs(history.anomalies[name]) for name in added if name in history.anomalies
    }
    anomalies = {
        **stored.anomalies,
        **{name: _permitted(finding, allowed.get(name)) for name, finding in findings.items()},
    }
    for name, finding in findings.items():
        cause = anomalies.get(finding.because or "")
        if finding.because and (cause is None or cause.allowed):
            anomalies[name] = structs.replace(anomalies[name], because=None)
    in_order = [name for checker in CHECKERS for name in checker.anomalies]
    unchecked = {name: reason for name, reason in stored.not_checked.items() if name not in only_history}
    unchecked |= {name: history.not_checked[name] for name in only_history if name in history.not_checked}
    return replace(
        stored,
        anomalies={name: anomalies[name] for name in in_order if name in anomalies},
        not_checked=unchecked,
        broken={**stored.broken, **history.broken},
        checked=[*stored.checked, *(name for name in only_history if name not in unchecked)],
    )


def _history_decides(name: str, stored: CheckResult) -> bool:
    """True if the history decides about an anomaly that the tables did not find.

    It does not decide about order if lines of a journal are missing: they may have the records that a client received.
    """
    if name in stored.anomalies:
        return False
    complete = all(reason.code is not ReasonCode.INCOMPLETE_EVIDENCE for reason in stored.broken.values())
    return name in WITHIN or (complete and checker_of(name).family == ORDER)


def _with_keys_of_runs(findings: AnomalyFindings) -> AnomalyFindings:
    """Add to the examples the keys that parts have in stored runs."""
    examples = deepcopy(findings.examples)
    for example in examples:
        for part in example.parts():
            position = KEY.fullmatch(str(part.get("key")))
            if position is not None:
                part.facts = {"topic": position[1], "partition": int(position[2]), **part.facts}
            times = {"call_ns": part.get("invoke_ns"), "return_ns": part.get("complete_ns")}
            part.facts |= {name: time_ns for name, time_ns in times.items() if time_ns is not None}
    return structs.replace(findings, examples=examples)


def _permitted(findings: AnomalyFindings, by: str | None) -> AnomalyFindings:
    return (
        findings if findings.allowed or by is None else structs.replace(findings, allowed=True, allowed_by=by)
    )
