"""The page of an exploration, `report.html`, and a text for each case with what its run has recorded."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from fencepost.checks.evidence import wall_ms_at_zero
from fencepost.exploration.outcome import (
    LEGEND,
    badge,
    cell_words,
    certificate,
    counted,
    findings,
    matrix,
    wrong_without_fault,
)
from fencepost.exploration.record import FILE, CaseVerdict, Exploration, TriedCase
from harness.common import wording as words
from harness.protocol.cases import CaseOutcome
from harness.record.table_reader import RunTables
from harness.record.timeline.partition_offsets import batches_of
from reports.html import template as shared
from reports.pictures.trace_lines import trace_lines
from reports.story.run import Story
from reports.story.scopes import of_id
from workloads.explore import EXPLORE, TASKS
from workloads.model.workload import pinned_id

TEXTS = "cases"
"""The folder of the texts in a run folder."""


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
