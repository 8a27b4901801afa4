"""From external histories to what the checkers say of them: one Spark job for all of them."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import pyarrow as pa

from checkers.checking.run_checks import CollectedFindings, collect
from checkers.checking.stored_runs import indeterminate_operations, with_cause
from checkers.checking.wording import with_wording
from checkers.external.graph.names import GRAPHS, WORDS, WR
from checkers.external.lines import line
from checkers.external.operations import Numbers, count_operations, kinds_passed_over, lookup
from checkers.external.records import records_of
from checkers.external.table import HistoryTable
from checkers.external.tables import ExternalTables, make_external
from checkers.findings.form import Findings
from checkers.findings.lookup import nested_objects
from checkers.registry import ALLOWED_WITH_SUBSCRIBE, CHECKERS, HISTORY_CHECKERS, INDETERMINATE, checker_of
from harness.common.errors import UnreadableInput
from harness.history_files.names import shown
from harness.history_files.schema import NAMES, NAMES_FROM, OPS, OUTCOMES
from harness.results.reasons import Reason, ReasonCode
from harness.results.verdict import CALLER, AnomalyFindings, CheckResult
from harness.results.wording import join_words, number, printable

OPERATION_COLUMNS = ("op", "process", "f", "outcome", "invoked", "invoke_ns", "complete_ns")
OPERATION = pa.schema([OPS.field(name) for name in ("run", *OPERATION_COLUMNS)])
CYCLES = {graph.name for graph in GRAPHS}
TOO_LARGE = Reason(
    ReasonCode.GRAPH_TOO_LARGE,
    "looked for in parts of the dependency graph alone: edges that go back hold millions of operations "
    "together, more than one task can take",
)
NO_OPERATIONS = "there is no operation of a numbered process in it: nothing was read"
NO_READ = "no ok operation was given any record: nothing was read"
JUDGED = ("send", "poll", "txn")
KINDS_SHOWN = 6
"""A reason names at most so many kinds of operations that were passed over, the most frequent first."""
KIND_CHARACTERS = 40
SAME_PLACE = (
    "micro.parquet has two records of one key in the same place (op, polled, n): a row stands twice, or "
    "nobody knows in which order they were sent or given"
)
NOT_TOLD = Reason(
    ReasonCode.EXTERNAL_HISTORY, "an external history names no markers, no inputs and no final readers"
)


def check_histories(
    ops: HistoryTable,
    micro: HistoryTable,
    names: HistoryTable,
    runs: Sequence[int],
    *,
    allowed: frozenset[str] = frozenset(),
    examples: int = 10,
    phase: Callable[[str], None] = lambda name: None,
) -> dict[int, CheckResult | UnreadableInput]:
    """What the checkers say of each history, by its number, or why nothing can be said of its tables.

    `allowed`: what the caller permits; `phase` is told what begins.
    """
    numbers = count_operations(ops)
    told = make_external(ops, micro, numbers, examples, phase=phase)
    phase("cycles, and the other checks beside them")
    found = collect(told, (*HISTORY_CHECKERS, INDETERMINATE), examples)
    too_large = {} if CYCLES & found.crashed.keys() else told.too_large
    phase("evidence")
    _add_records(numbers, told)
    _explain(told, ops, names, found.rows)
    counts = {run: numbers.get(run, Counter()) for run in runs}
    unread = {run for run, count in counts.items() if not count["read"] and count["passed_over"]}
    kinds = kinds_passed_over(ops, unread)
    return {
        run: UnreadableInput(SAME_PLACE)
        if count["in_place_of_another"]
        else _judgement(
            run, found, count, kinds.get(run, Counter()), allowed, too_large.get(run, frozenset())
        )
        for run, count in counts.items()
    }


def _add_records(numbers: Numbers, t: ExternalTables) -> None:
    """And what became of its records; each task has counted its own."""
    for row in t.counted.toArrow().to_pylist():
        numbers[row.pop("run")].update(row)


def _judgement(
    run: int,
    found: CollectedFindings,
    numbers: Counter[str],
    kinds: Counter[str],
    allowed: frozenset[str],
    left_out: Set[int],
) -> CheckResult:
    """The findings of one history, and why it may be unknown. `kinds`: those passed over, if nothing was read."""
    anomalies: dict[str, AnomalyFindings] = {}
    permitted = dict.fromkeys(allowed, CALLER)
    if numbers["subscribes"]:
        permitted |= dict.fromkeys(ALLOWED_WITH_SUBSCRIBE, "subscribe")
    for checker in HISTORY_CHECKERS:
        for name in checker.anomalies:
            parts = [found.rows[key] for key in ((run, name, False), (run, name, True)) if key in found.rows]
            if parts:
                by = "Kafka" if name in checker.always_allowed else permitted.get(name)
                counted = AnomalyFindings(
                    count=sum(part.count for part in parts),
                    examples=[example for part in parts for example in part.examples],
                    allowed=by is not None,
                    allowed_by=by,
                )
                anomalies[name] = with_wording(name, counted, line)
    told = {name for checker in HISTORY_CHECKERS for name in checker.anomalies}
    broken = dict(found.crashed)
    if not numbers["read"]:
        broken[ReasonCode.NOTHING_READ] = _nothing_read(numbers, kinds)
    return CheckResult(
        anomalies={name: with_cause(run, name, anomalies, found.caused) for name in anomalies},
        not_checked={name: NOT_TOLD for checker in CHECKERS for name in checker.anomalies if name not in told}
        | {graph.name: TOO_LARGE for graph in GRAPHS if graph.kinds & left_out},
        broken=broken,
        checked=[name for checker in HISTORY_CHECKERS for name in checker.anomalies],
        coverage={
            "outputs": numbers["records"],
            "committed": numbers["committed"],
            "aborted": numbers["aborted"],
        },
        stats={name: numbers[name] for name in ("ops", "ok", "fail", "info", "open", "passed_over")},
        unsettled=indeterminate_operations(run, found.rows),
    )


def _nothing_read(numbers: Counter[str], kinds: Counter[str]) -> Reason:
    """Why a history is unknown in which no ok operation was given any record."""
    if not numbers["ops"]:
        return Reason(ReasonCode.NOTHING_READ, NO_OPERATIONS)
    over = numbers["passed_over"]
    if not over:
        return Reason(ReasonCode.NOTHING_READ, NO_READ)
    shown = sorted(kinds.items(), key=lambda kind: (-kind[1], kind[0]))[:KINDS_SHOWN]
    parts = [f"{number(many)} {printable(f, KIND_CHARACTERS)}" for f, many in shown]
    if others := over - sum(many for _, many in shown):
        parts.append(f"and {number(others)} of other kinds")
    several = f"its operations were passed over: {', '.join(parts)}"
    if over < numbers["ops"]:
        several = (
            f"of its {number(numbers['ops'])} operations {number(over)} were passed over: {', '.join(parts)}"
        )
    return Reason(
        ReasonCode.NOTHING_READ,
        f"{NO_READ}; {several}; Fencepost judges {join_words(JUDGED)}",
        remedy=f"record what clients sent and polled as operations {join_words(JUDGED)} (docs/histories.md)",
    )


def _explain(
    t: ExternalTables,
    told_ops: HistoryTable,
    names: HistoryTable,
    rows: Mapping[tuple[int, str, bool], Findings],
) -> None:
    """Put the operations themselves, and the keys and values as they were written, into the examples."""
    ops: set[tuple[int, int]] = set()
    ids: set[tuple[int, int]] = set()
    _name_records(t, [thing for finding in rows.values() for thing in nested_objects(finding.examples)])
    for (run, _, _), finding in rows.items():
        for thing in nested_objects(finding.examples):
            if thing.get("op") is not None:
                ops.add((run, thing["op"]))
            named = (thing.get("key"), thing.get("value"))
            ids |= {(run, one) for one in named if isinstance(one, int) and one >= NAMES_FROM}
    told = lookup(told_ops, OPERATION, "op", ops)
    texts = lookup(names, NAMES, "id", ids)
    for (run, name, _), finding in rows.items():
        finding.examples = [_describe(example, run, told, texts) for example in finding.examples]
        if checker_of(name).family == "cycles":
            for example in finding.examples:
                example["steps"] = [_sentence(step) for step in example["cycle"]]


def _name_records(t: ExternalTables, things: Sequence[dict[str, Any]]) -> None:
    """Put the records that they go by into the steps of cycles."""
    steps = [thing for thing in things if "reference" in thing]
    records = records_of(t.packs, {step["reference"] for step in steps})
    for step in steps:
        found = records[step.pop("reference")]
        for name in ("record",) if step["kind"] == WORDS[WR] else ("record", "following"):
            step[name] = {part: told for part, told in found[name].items() if told is not None}


def _describe(
    thing: Any,
    run: int,
    told: Mapping[tuple[int, int], Mapping[str, Any]],
    texts: Mapping[tuple[int, int], Mapping[str, Any]],
) -> Any:
    """One object of an example, with all that is known of it."""
    if isinstance(thing, list):
        return [_describe(each, run, told, texts) for each in thing]
    if not isinstance(thing, dict):
        return thing
    body = {key: _describe(value, run, told, texts) for key, value in thing.items()}
    for name in ("key", "value"):
        if (run, body.get(name)) in texts:
            body[name] = _named(texts[run, body[name]]["text"])
    operation = told.get((run, thing.get("op", -1)))
    if operation:
        body |= {column: operation[column] for column in OPERATION_COLUMNS if operation[column] is not None}
        body["outcome"] = OUTCOMES[operation["outcome"]]
    return body


def _named(text: str | None) -> Any:
    try:
        return json.loads(text or "")
    except (ValueError, RecursionError) as error:
        raise UnreadableInput(f"names.parquet has a text that is no JSON: {shown(text)}") from error


def _sentence(step: Mapping[str, Any]) -> str:
    """A step of a cycle in words: which operation depends on which, and by what."""
    one, other = (f"T{step[end]['op']}" for end in ("from", "to"))
    kind = step["kind"]
    if kind == "process":
        return f"{other} came after {one} in the same process"
    if kind == "realtime":
        return f"{other} was invoked after {one} had completed"
    key, value = json.dumps(step["record"]["key"]), json.dumps(step["record"]["value"])
    if kind == "wr":
        return f"{other} read {value} from {key}, which {one} wrote"
    following = json.dumps(step["following"]["value"])
    if kind == "ww":
        return f"{other} wrote {following} to {key}, next after {value}, which {one} wrote"
    return f"{one} read {value} from {key} and not {following}, next after it, which {other} wrote"
