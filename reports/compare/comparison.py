"""Compare two runs, or two suites, figure by figure. Nothing is decided: no side is called better.

A comparison of two runs is one pair with one run on each side. A comparison of two suites has a pair for each cell.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from harness.common.wording import join_words, number, plural, printable, seconds
from harness.results.recovery import COMPARED_WITH_NORMAL, Liveness
from harness.results.suite import CellState
from harness.results.verdict import FaultReport
from reports.compare import figures
from reports.compare.differences import setting_rows, version_rows
from reports.compare.pairs import RunPair, Runs, pair_cells
from reports.compare.sides import ComparedRun, ComparedSide, SideKind
from reports.compare.values import (
    COUNT,
    MILLISECONDS,
    NOT_KNOWN,
    PER_SECOND,
    SECONDS,
    ComparedRow,
    ComparedTable,
    figure_row,
)
from reports.liveness_text import NOT_SEEN

SCHEMA_VERSION = 1
NO_RUN, NO_FAULT = "no such run", "no such fault"
MOST_NOTES = 10
_THROUGHPUT = (
    (figures.TRANSACTIONS, "committed transactions"),
    (figures.RECORDS, "committed records"),
)
_LATENCY = (
    (figures.EARLY_MEDIAN, "median before the first fault"),
    (figures.EARLY_P99, "99 % before the first fault"),
    (figures.MEDIAN, "median of the whole run"),
    (figures.P99, "99 % of the whole run"),
)
_RECOVERY = (
    ("first_commit_s", "first commit after the injection", SECONDS),
    ("first_commit_after_heal_s", "first commit after the heal", SECONDS),
    ("longest_gap_s", "longest gap without a commit", SECONDS),
    ("worst_partition_gap_s", "longest gap of a partition", SECONDS),
    ("lso_still_s", "the LSO of a partition did not move", SECONDS),
    ("rate_back_s", "rate back after", SECONDS),
    ("latency_back_s", "latency back after", SECONDS),
    ("lag_back_s", "lag back after", SECONDS),
    ("aborted", "aborted transactions", COUNT),
    ("fenced", "fenced operations", COUNT),
    ("rebalances", "rebalances", COUNT),
)
"""Fields of `Liveness`, with their words and units."""


@dataclass(frozen=True)
class ComparedPair:
    """The tables of two runs, or of two cells."""

    name: str  # of the cell; empty for two runs
    tables: Sequence[ComparedTable]


@dataclass(frozen=True)
class Comparison:
    """Everything that the console, the page and `--json` show."""

    a: ComparedSide
    b: ComparedSide
    totals: ComparedTable | None  # for suites: how many runs have each state
    pairs: Sequence[ComparedPair]
    differences: Sequence[ComparedTable]  # versions and settings
    notes: Sequence[str]

    def as_json(self) -> dict[str, Any]:
        """Return the content of `--json`."""
        a, b = ({"path": side.path, "title": side.title, "runs": len(side.runs)} for side in (self.a, self.b))
        return {
            "schema": SCHEMA_VERSION,
            "kind": str(self.a.kind),
            "a": a,
            "b": b,
            "totals": self.totals.as_json() if self.totals else None,
            "pairs": [
                {"name": pair.name, "tables": [table.as_json() for table in pair.tables]}
                for pair in self.pairs
            ],
            "differences": [table.as_json() for table in self.differences],
            "notes": list(self.notes),
        }


def compare(a: ComparedSide, b: ComparedSide) -> Comparison:
    """Compare two sides of the same kind."""
    are_suites = a.kind is SideKind.SUITE
    pairs = pair_cells(a.runs, b.runs) if are_suites else [RunPair("", a.runs, b.runs)]
    with_partner = [pair for pair in pairs if pair.a and pair.b]
    paired_a = [run for pair in with_partner for run in pair.a]
    paired_b = [run for pair in with_partner for run in pair.b]
    return Comparison(
        a=a,
        b=b,
        totals=ComparedTable("All runs", _total_rows(a.runs, b.runs)) if are_suites else None,
        pairs=[ComparedPair(pair.name, _tables(pair, are_suites)) for pair in pairs],
        differences=[
            ComparedTable("Versions that differ", list(version_rows(paired_a, paired_b))),
            ComparedTable("Settings that differ", list(setting_rows(paired_a, paired_b, are_suites))),
        ],
        notes=list(_notes(a, b, pairs)),
    )


def _total_rows(a: Runs, b: Runs) -> list[ComparedRow]:
    counts = [Counter(run.state for run in runs) for runs in (a, b)]
    states = [str(state) for state in CellState if any(count[state] for count in counts)]
    rows = [(state, counts[0][state], counts[1][state]) for state in states]
    return [figure_row(name, COUNT, [in_a], [in_b]) for name, in_a, in_b in [*rows, ("runs", len(a), len(b))]]


def _tables(pair: RunPair, are_suites: bool) -> list[ComparedTable]:
    missing = _missing(pair.a), _missing(pair.b)

    def rows(names: Sequence[tuple[str, str]], unit: str) -> list[ComparedRow]:
        return [
            figure_row(
                text,
                unit,
                [run.figures.known.get(name) for run in pair.a],
                [run.figures.known.get(name) for run in pair.b],
                missing,
            )
            for name, text in names
        ]

    return [
        ComparedTable("Verdict", [*_verdict_rows(pair, are_suites), *_anomaly_rows(pair)]),
        ComparedTable("Throughput under load", rows(_THROUGHPUT, PER_SECOND)),
        ComparedTable("Commit latency", rows(_LATENCY, MILLISECONDS)),
        *_recovery_tables(pair),
    ]


def _missing(runs: Runs) -> str:
    return NOT_KNOWN if runs else NO_RUN


# Verdicts and anomalies


def _verdict_rows(pair: RunPair, are_suites: bool) -> Iterator[ComparedRow]:
    if not are_suites:
        yield ComparedRow("verdict", pair.a[0].state, pair.b[0].state)
        return
    yield ComparedRow("verdicts", _states(pair.a), _states(pair.b))
    for seed, a, b in pair.by_seed:
        yield ComparedRow(f"seed {seed}", _state(a), _state(b))


def _states(runs: Runs) -> str:
    counts = Counter(run.state for run in runs)
    return ", ".join(f"{number(counts[state])} {state}" for state in CellState if counts[state]) or NO_RUN


def _state(run: ComparedRun | None) -> str:
    """Return the state of a run, with the anomalies that the guarantee forbids."""
    if run is None:
        return NO_RUN
    forbidden = run.cell.anomalies if run.cell else {}
    texts = [f"{printable(name, 60)} {number(count)}" for name, count in forbidden.items()]
    return f"{run.state}: {join_words(texts)}" if texts else run.state


def _anomaly_rows(pair: RunPair) -> Iterator[ComparedRow]:
    for name in dict.fromkeys(name for run in (*pair.a, *pair.b) for name in _found(run)):
        yield ComparedRow(printable(name, 60), _count_text(pair.a, name), _count_text(pair.b, name))


def _found(run: ComparedRun) -> Sequence[str]:
    return [*(run.verdict.anomalies if run.verdict else run.cell.anomalies if run.cell else ())]


def _count(run: ComparedRun, anomaly: str) -> int | None:
    """Return how many findings a run has. None: it is not known, because the run was not checked for the anomaly."""
    if run.verdict is None:
        return run.cell.anomalies.get(anomaly) if run.cell else None
    if anomaly in run.verdict.anomalies:
        return run.verdict.anomalies[anomaly].count
    was_checked = anomaly in run.verdict.checked and anomaly not in run.verdict.not_checked
    return 0 if was_checked else None


def _count_text(runs: Runs, anomaly: str) -> str:
    """Return the findings of a side: `3 (allowed)` for one run, `in 2 of 5 runs (3 to 7 findings)` for several."""
    if not runs:
        return NO_RUN
    counts = [_count(run, anomaly) for run in runs]
    known = [count for count in counts if count is not None]
    if not known:
        return NOT_KNOWN
    notes = dict.fromkeys(filter(None, (_why_harmless(run, anomaly) for run in runs)))
    found = [count for count in known if count]
    if len(runs) == 1:
        return f"{number(known[0])} ({', '.join(notes)})" if notes else number(known[0]) if found else "none"
    low = f"{number(min(found))} to " if found and min(found) < max(found) else ""
    texts = [f"{low}{plural(max(found), 'finding')}", *notes] if found else []
    texts += [f"not known in {len(counts) - len(known)}"] if len(known) < len(counts) else []
    return f"in {len(found)} of {len(runs)} runs" + (f" ({'; '.join(texts)})" if texts else "")


def _why_harmless(run: ComparedRun, anomaly: str) -> str:
    findings = run.verdict.anomalies.get(anomaly) if run.verdict else None
    if findings is None:
        return ""
    return "a warning" if findings.warning else "allowed" if findings.allowed else ""


# Recovery from faults


def _recovery_tables(pair: RunPair) -> Iterator[ComparedTable]:
    """Yield a table for each fault. Faults of the two sides are paired by their kind and their order in the run."""
    keys = dict.fromkeys(key for run in (*pair.a, *pair.b) for key in _faults(run))
    several = {kind for kind, order in keys if order > 1}
    for kind, order in keys:
        sides = [[_faults(run).get((kind, order)) for run in runs] for runs in (pair.a, pair.b)]
        text_a, text_b = map(_fault_text, (pair.a, pair.b), sides)
        a, b = ([fault for fault in faults if fault] for faults in sides)
        number_in_run = f", number {order} of the run" if kind in several else ""
        yield ComparedTable(
            f"Recovery from {printable(kind, 60)}{number_in_run}",
            [ComparedRow("fault", text_a, text_b), *_recovery_rows(a, b, (text_a, text_b))],
        )


def _faults(run: ComparedRun) -> dict[tuple[str, int], FaultReport]:
    """Return the faults of a run by their kind and their number within the kind, from 1."""
    counts: Counter[str] = Counter()
    faults = {}
    for fault in run.faults:
        counts[fault.fault] += 1
        faults[fault.fault, counts[fault.fault]] = fault
    return faults


def _fault_text(runs: Runs, faults: Sequence[FaultReport | None]) -> str:
    """Return the target and time of a fault in one run, or in how many runs it was injected."""
    if not any(run.verdict for run in runs):
        return _missing(runs)
    injected = [fault for fault in faults if fault]
    acted = sum(fault.acted for fault in injected)
    if not injected:
        return NO_FAULT
    if len(runs) == 1:
        did_not = "" if acted else "; it did not act"
        return f"{printable(injected[0].target, 100)} at {seconds(injected[0].start_s)}{did_not}"
    did_not = "" if acted == len(injected) else f"; it acted in {acted}"
    return f"in {len(injected)} of {len(runs)} runs{did_not}"


def _recovery_rows(
    a: Sequence[FaultReport], b: Sequence[FaultReport], absent: tuple[str, str]
) -> Iterator[ComparedRow]:
    """Yield a row for each value that is known on one side at least. `absent`: the words for a side without a fault."""
    known = [[_known_liveness(fault) for fault in faults] for faults in (a, b)]
    for name, words, unit in _RECOVERY:
        values_a, values_b = (
            [getattr(liveness, name) if liveness else None for liveness in side] for side in known
        )
        missing_a, missing_b = (
            text if not side else NOT_SEEN if unit == SECONDS and _may_show(name, side) else NOT_KNOWN
            for side, text in zip(known, absent, strict=True)
        )
        row = figure_row(words, unit, values_a, values_b, (missing_a, missing_b))
        if any(row.numbers or ()) or NOT_SEEN in (missing_a, missing_b):
            yield row
    if any(_why_not_known(fault) for fault in (*a, *b)):
        yield ComparedRow("not known, because", _reasons(a), _reasons(b))


def _may_show(name: str, side: Sequence[Liveness | None]) -> bool:
    """Return whether a run of a side has the evidence for a value of `Liveness`."""
    measured = [liveness for liveness in side if liveness is not None]
    return any(liveness.normal_known or name not in COMPARED_WITH_NORMAL for liveness in measured)


def _reasons(faults: Sequence[FaultReport]) -> str:
    reasons = dict.fromkeys(filter(None, map(_why_not_known, faults)))
    return join_words(reasons) if reasons else ""


def _known_liveness(fault: FaultReport) -> Liveness | None:
    return None if _why_not_known(fault) else fault.liveness


def _why_not_known(fault: FaultReport) -> str:
    """Return why nothing is known about the recovery from a fault. Empty: something is known."""
    if not fault.acted:
        return "the fault did not act"
    if fault.liveness is None:
        return "the run stored none (`fencepost check --update`)"
    return printable(fault.liveness.not_known, 300) if fault.liveness.not_known else ""


# Notes


def _notes(a: ComparedSide, b: ComparedSide, pairs: Sequence[RunPair]) -> Iterator[str]:
    by_logs = {run.figures.by_logs for run in (*a.runs, *b.runs) if run.figures.known}
    if len(by_logs) > 1:
        yield (
            "some latencies are from the journals of workers, and others are from the transaction log, where a commit "
            "is shorter: do not compare them"
        )
    paired = [(x, y) for pair in pairs if pair.a and pair.b for _, x, y in pair.by_seed]
    if a.kind is SideKind.SUITE and paired and not any(x and y for x, y in paired):
        yield (
            "no seed of a cell is in both suites, so their runs had different schedules of faults: give both suites "
            "the same seeds"
        )
    for name, side in (("A", a), ("B", b)):
        notes = Counter(note for run in side.runs for note in run.notes)
        for note, count in notes.most_common(MOST_NOTES):
            runs = f" (in {plural(count, 'run')})" if a.kind is SideKind.SUITE else ""
            yield f"{name}: {printable(note, 300)}{runs}"
        if len(notes) > MOST_NOTES:
            yield f"{name}: {plural(len(notes) - MOST_NOTES, 'more note')}"
