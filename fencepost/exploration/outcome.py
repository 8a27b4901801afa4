"""The outcome of an exploration in words: JSON, a certificate, a matrix, and its page `report.html`."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from fencepost.checks.evidence import wall_ms_at_zero
from fencepost.exploration.space import BY_DEFAULT, FILE, PAIR, CaseKind, CaseVerdict, Exploration, TriedCase
from harness.common import wording as words
from harness.common.wording import join_words, plural, printable
from harness.protocol.cases import CaseOutcome
from harness.record.table_reader import RunTables
from harness.record.timeline.partition_offsets import batches_of
from harness.results.reasons import Reason, ReasonCode
from harness.results.verdict import AnomalyFindings, Verdict
from reports.html import template as shared
from reports.pictures.trace_lines import trace_lines
from reports.story.run import Story
from reports.story.scopes import of_id
from workloads.explore import EXPLORE, TASKS
from workloads.model.workload import pinned_id

SIGNS = {
    CaseVerdict.RIGHT: ".",
    CaseVerdict.FENCED: "f",
    CaseVerdict.WRONG: "X",
    CaseVerdict.STUCK: "s",
    CaseVerdict.NOT_MET: "-",
}
MOST_CHARACTERS = 1_000
"""Maximum characters of a line for a terminal."""
LEGEND = ". right, f fenced or fatal and then right, X wrong, s stuck, - its rule had no effect"
TEXTS = "cases"
"""The folder of the texts in a run folder."""


def parts_of(name: str) -> tuple[str, str, str]:
    """Split the name of a case into its program, its kind and its request: `CC`, `hold`, `EndTxn#1`."""
    program, kind, request, *_ = name.split()
    return program, kind, request


@dataclass(frozen=True)
class WrongCases:
    """The wrong cases of one cause: the same request of the same program, and the same anomalies."""

    program: str
    request: str
    anomalies: tuple[str, ...]
    names: Sequence[str]  # of its cases, the smallest first

    @property
    def kinds(self) -> str:
        """The kinds of its faults."""
        return ", ".join(dict.fromkeys(parts_of(name)[1] for name in self.names))


def findings(record: Exploration) -> list[WrongCases]:
    """Return the findings, those of the first program first."""
    found: dict[tuple[str, str, tuple[str, ...]], list[str]] = defaultdict(list)
    for name, case in record.cases.items():
        if case.settled is CaseVerdict.WRONG:
            program, _, request = parts_of(name)
            found[program, request, tuple(case.found)].append(name)
    return [
        WrongCases(*key, sorted(names, key=lambda name: (PAIR in name, len(name), name)))
        for key, names in found.items()
    ]


def outcome_of(record: Exploration, folder: Path) -> dict[str, Any]:
    """Return the outcome as an object of JSON."""
    return {
        "schema": 1,
        "valid": record.validity.json,
        "client": record.client,
        "kafka": record.kafka,
        "transaction_version": record.transaction_version,
        "cases": {
            "all": record.all_cases,
            "tried": len(record.cases),
            **{each.value.replace("-", "_"): record.counts[each] for each in CaseVerdict},
            "not_offered": len(record.not_offered),
            "unsteady": len(unsteady(record)),
        },
        "findings": [
            {
                "request": f"{finding.program} {finding.request}",
                "kind": finding.kinds,
                "anomalies": list(finding.anomalies),
                "cases": len(finding.names),
                "smallest": finding.names[0],
                "alone": f"{sum(record.cases[name].confirmed for name in finding.names)} of {len(finding.names)} "
                "each time",
            }
            for finding in findings(record)
        ],
        "not_in_it": not_in_it(record),
        "folder": str(folder),
    }


def verdict_of(record: Exploration, folder: Path) -> Verdict:
    """Return the outcome as the verdict of a run, for suites: each wrong case is a finding of each of its anomalies."""
    wrong = [case for case in record.cases.values() if case.settled is CaseVerdict.WRONG]
    counts = Counter(anomaly for case in wrong for anomaly in case.found)
    counts.update(anomaly for found in record.wrong_without_fault.values() for anomaly in found)
    anomalies = {name: AnomalyFindings(count) for name, count in sorted(counts.items())}
    return Verdict(
        str(folder),
        folder.name,
        None,
        record.validity.json,
        f"{record.validity.name.lower()}: {counted(record)}",
        anomalies,
        unknown_because=[*record.unknown_because, *_missing(record)],
    )


def _missing(record: Exploration) -> Iterator[Reason]:
    """Yield a reason for each case that was never met, or that did not end."""
    codes = {
        CaseVerdict.NOT_MET: ReasonCode.FAULT_DID_NOT_ACT,
        CaseVerdict.STUCK: ReasonCode.INPUTS_LEFT,
    }
    for name, case in record.cases.items():
        if case.settled in codes:
            yield Reason(codes[case.settled], f"{case.settled}: {name}: {case.stuck or case.proof}", name)


def wrong_without_fault(record: Exploration) -> list[str]:
    """Return a sentence for each program that is wrong without a fault."""
    return [
        f"the program {program} is wrong without a fault, so its faults were not tried: "
        + (join_words(anomalies) if anomalies else "not the same each time")
        for program, anomalies in record.wrong_without_fault.items()
    ]


def unsteady(record: Exploration) -> list[str]:
    """Return the names of the cases that were wrong, but not the same each time alone."""
    return [name for name, case in record.cases.items() if case.unsteady]


def not_in_it(record: Exploration) -> list[str]:
    """Return what the exploration did not try, each as a noun."""
    scope = record.scope
    kinds = [kind for kind in CaseKind if kind not in scope.kinds]
    left = record.all_cases - len(record.cases)
    missing = [
        "all other cases" if record.only else "",
        f"{plural(left, 'case')} that were not tried" if left > 0 else "",
        "several brokers: late markers, coordinators that move, replicas that are behind"
        if scope.brokers == 1
        else "",
        "" if scope.members else "members of the group: generations and rebalances",
        "" if scope.pairs else "two faults in one case",
        "" if scope.all_errors else "every error of an API: one of each class was tried",
        f"the kinds {', '.join(kinds)}" if kinds else "",
        *wrong_without_fault(record),
        f"the programs {', '.join(record.not_offered)}, for which the client lacks a step"
        if record.not_offered
        else "",
        "other orders of the messages than those that were met",
    ]
    return [each for each in missing if each]


def counted(record: Exploration) -> str:
    """Return the counts: `2,115 of 2,115 cases tried: 1,706 right, 36 wrong`."""
    counts = ", ".join(f"{record.counts[each]:,} {each}" for each in CaseVerdict if record.counts[each])
    more = (
        f"; {plural(len(unsteady(record)), 'wrong case')} not the same each time" if unsteady(record) else ""
    )
    return f"{len(record.cases):,} of {plural(record.all_cases, 'case')} tried: {counts or 'none'}{more}"


def certificate(record: Exploration) -> list[str]:
    """Return the certificate, one sentence each: what was tried, what came of it, and what was not tried."""
    scope = record.scope
    faults = (
        "every single fault" if tuple(scope.kinds) == BY_DEFAULT else f"the faults {', '.join(scope.kinds)}"
    )
    pairs = ", and pairs of faults" if scope.pairs else ""
    share = "" if record.finished else f"{len(record.cases):,} of {record.all_cases:,} cases of "
    versions = f"Kafka {record.kafka}, transaction version {record.transaction_version}"
    return [
        f"{record.client} with {versions}, {record.ended[:10]}: {record.validity.name.lower()}.",
        f"{counted(record)}.",
        f"Tried: only the case {record.only}."
        if record.only
        else f"Tried: {share}{faults} on the messages of the programs {', '.join(scope.programs)}{pairs}.",
        f"Not in it: {'; '.join(not_in_it(record))}.",
    ]


def badge(record: Exploration) -> str:
    """Return a line for a README. A single case has none."""
    good = record.counts[CaseVerdict.RIGHT] + record.counts[CaseVerdict.FENCED]
    if record.only:
        return ""
    return (
        f"Fencepost, {record.client} with Kafka {record.kafka}, {record.ended[:10]}: {record.validity.name.lower()}, "
        f"{good:,} of {record.all_cases:,} faults on the messages of transactions right"
    )


def lines(record: Exploration, folder: Path) -> Iterator[str]:
    """Yield the outcome as lines for a terminal."""
    for program in record.sent:
        kinds, cells_by_request = matrix(program, record)
        rows = [[program, *kinds]]
        rows += [[request, *map(cell_words, cells)] for request, cells in cells_by_request.items()]
        widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
        for row in rows:
            yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        yield ""
    yield LEGEND
    yield ""
    for finding in findings(record):
        yield f"{finding.program} {finding.request}: {join_words(finding.anomalies)}"
        yield from (f"    {name} (alone {record.cases[name].alone_words})" for name in finding.names)
    for reason in _missing(record):
        yield printable(reason.text, MOST_CHARACTERS)
    for name in unsteady(record):
        yield f"unsteady: {name}: wrong, but not the same each time, so the verdict is not valid"
    yield from wrong_without_fault(record)
    for reason in record.unknown_because:
        yield printable(f"unknown: {reason.text}", MOST_CHARACTERS)
    yield f"verdict  {record.validity.name.lower()}"
    yield f"reason   {counted(record)}"
    if record.not_offered:
        yield f"         not offered by the client: {', '.join(record.not_offered)}"
    yield f"page     {folder / 'report.html'}"


Cells = Sequence[Mapping[str, TriedCase]]
"""The cases of each cell of a row, by name. A cell may be empty."""


def matrix(program: str, record: Exploration) -> tuple[list[CaseKind], Mapping[str, Cells]]:
    """Return the kinds of faults, which are the columns, and by request the cells of its row.

    Pairs are in the cell of their first fault.
    """
    cells: dict[tuple[str, str], dict[str, TriedCase]] = defaultdict(dict)
    for name, case in record.cases.items():
        own, kind, request = parts_of(name)
        if own == program:
            cells[request, kind][name] = case
    kinds = [kind for kind in CaseKind if any(kind == column for _, column in cells)]
    requests = dict.fromkeys(request for request, _ in cells)
    return kinds, {request: [cells.get((request, kind), {}) for kind in kinds] for request in requests}


def cell_words(cell: Mapping[str, TriedCase]) -> str:
    """Return the counts of a cell: `3. 4X 1f`."""
    counts = Counter(SIGNS[case.settled] for case in cell.values())
    return " ".join(f"{count}{sign}" for sign, count in sorted(counts.items()))


@dataclass(frozen=True)
class CasePart:
    """A case, prepared for the template."""

    name: str
    case: TriedCase
    text: str  # the path of its text

    @property
    def alone(self) -> str:
        """How often it was wrong alone, in words. Empty: it was not tried alone."""
        return f"alone {self.case.alone_words} wrong" if self.case.alone else ""


@dataclass(frozen=True)
class CellPart:
    """A cell of a matrix, prepared for the template."""

    ident: str
    counts: str
    style: str
    kind: str
    cases: Sequence[CasePart]


def write_cases(
    folder: Path, outcomes: Sequence[CaseOutcome], tried: Sequence[TriedCase], command: str
) -> None:
    """Write a text for each case of a batch: what its rule did, its requests, and the states of its transactions.

    `command` explores its client.
    """
    tables = RunTables(folder, wall_ms_at_zero(folder))
    texts = folder / TEXTS
    texts.mkdir(exist_ok=True)
    for outcome, case in zip(outcomes, tried, strict=True):
        steps = of_id(Story(tables), pinned_id(TASKS, outcome.case.number))
        text = "\n".join(
            [
                *_head(outcome, case, command),
                "",
                *trace_lines(steps),
                "",
                *_records(tables, outcome.case.number),
                "",
            ]
        )
        _text_of(folder, outcome.case.number).write_text(text, encoding="utf-8")


def _text_of(folder: Path, number: int) -> Path:
    return folder / TEXTS / f"{number}.txt"


def _head(outcome: CaseOutcome, tried: TriedCase, command: str) -> Iterator[str]:
    case = outcome.case
    yield f"{case.name}: {tried.verdict}"
    yield from tried.why
    yield f"its fault: {outcome.proof}" if outcome.proof else "without a fault"
    yield from (f"it needed a new producer: {error}" for error in outcome.errors)
    if outcome.stuck:
        yield f"it is stuck: {outcome.stuck}"
    yield f'again: {command} --case "{case.name}"'


def _records(t: RunTables, number: int) -> Iterator[str]:
    """Yield what became of the records of a case, and of its offsets."""
    partitions = [t.numbers[topic, number] for topic in EXPLORE.stages[0].writes]
    records = t.rows("records", tp=partitions)
    batches = batches_of(t, [(row["tp"], row["offset"]) for row in records])
    for row in sorted(records, key=lambda row: (row["tp"], row["offset"])):
        if row["sentinel"]:
            continue
        batch = batches.get((row["tp"], row["offset"]), {})
        marker = batch.get("marker")
        fate = "no marker decides it" if marker is None else f"a marker to {marker} decides it"
        inputs = ", ".join(f"{t.name(each['tp'])} @ {each['offset']}" for each in row["inputs"])
        yield f"{t.name(row['tp'])} @ {row['offset']}: {row['value']}, made from {inputs}; {fate}"
    for row in t.rows("offsets", tp=[t.numbers[TASKS, number]]):
        if row["metadata"]:
            yield f"{t.name(row['tp'])}: offset {row['committed']} was stored by {row['metadata']}"


def write_page(record: Exploration, folder: Path) -> None:
    """Write the page. It links to the texts of the cases."""
    style = "".join(
        (Path(shared.__file__).parent / name).read_text(encoding="utf-8")
        for name in ("report.css", "suite.css")
    )
    page = shared.template("explore.html", {"show": words.printable}).render(
        record=record,
        colour=record.validity.name.lower(),
        counted=counted(record),
        certificate=certificate(record),
        badge=badge(record),
        errors=_errors(record),
        legend=LEGEND,
        wrong_without_fault=wrong_without_fault(record),
        file=FILE,
        folder=str(folder),
        findings=[
            (
                finding,
                [_part(name, record.cases[name]) for name in finding.names],
                _smallest(record, folder, finding.names[0]),
            )
            for finding in findings(record)
        ],
        open=[_part(name, case) for name, case in record.cases.items() if case.is_open],
        programs=[_program(program, record) for program in record.sent],
        policy=shared.policy([style], []),
        style=Markup(style),
    )
    (folder / "report.html").write_text(page, encoding="utf-8")


def _errors(record: Exploration) -> Mapping[str, Sequence[CasePart]]:
    """Return the fenced cases by the first word of the error after which a new producer was needed."""
    by_error: dict[str, list[CasePart]] = defaultdict(list)
    for name, case in record.cases.items():
        if case.settled is CaseVerdict.FENCED:
            for word in dict.fromkeys(error.split(" ")[0].rstrip(":") for error in case.errors):
                by_error[word].append(_part(name, case))
    return dict(sorted(by_error.items()))


def _program(
    program: str, record: Exploration
) -> tuple[str, Sequence[str], Mapping[str, Sequence[CellPart]]]:
    """Return a program, the kinds of its faults, and by request its cells."""
    kinds, cells_by_request = matrix(program, record)
    rows = {
        request: [
            CellPart(
                f"{program}-{request}-{kind}".replace("#", "-"),
                cell_words(cell),
                _style(cell),
                kind,
                [_part(name, case) for name, case in cell.items()],
            )
            for kind, cell in zip(kinds, cells, strict=True)
        ]
        for request, cells in cells_by_request.items()
    }
    return program, kinds, rows


def _style(cell: Mapping[str, TriedCase]) -> str:
    """Return the class of a cell: that of its worst case."""
    settled = {case.settled for case in cell.values()}
    if CaseVerdict.WRONG in settled:
        return "invalid"
    return "unknown" if settled & {CaseVerdict.STUCK, CaseVerdict.NOT_MET} else "valid"


def _part(name: str, case: TriedCase) -> CasePart:
    return CasePart(name, case, f"{case.batch}/{TEXTS}/{case.number}.txt")


def _smallest(record: Exploration, folder: Path, name: str) -> str:
    """Return the text of a case, from the first time that it was wrong alone, or else from its batch."""
    case = record.cases[name]
    shown = next((each for each in case.alone if each.verdict is CaseVerdict.WRONG), case)
    path = _text_of(folder / shown.batch, shown.number)
    return path.read_text(encoding="utf-8") if path.exists() else ""
