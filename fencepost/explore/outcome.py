"""The outcome of an exploration: in JSON, and as a matrix of requests and kinds for a terminal."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fencepost.explore.record import CaseVerdict, Exploration, TriedCase
from fencepost.explore.space import CaseKind
from harness.results.wording import join_words, plural

SIGNS = {
    CaseVerdict.RIGHT: ".",
    CaseVerdict.FENCED: "f",
    CaseVerdict.WRONG: "X",
    CaseVerdict.STUCK: "s",
    CaseVerdict.NOT_MET: "-",
}
LEGEND = ". right, f fenced or fatal and then right, X wrong, s stuck, - its rule had no effect"


def parts_of(name: str) -> tuple[str, str, str]:
    """Split the name of a case into its program, its kind and its request: `CC`, `hold`, `EndTxn#1`."""
    program, kind, request, *_ = name.split()
    return program, kind, request


def outcome_of(record: Exploration, folder: Path) -> dict[str, Any]:
    """Return the outcome as an object of JSON."""
    counts = Counter(case.settled for case in record.cases.values())
    return {
        "schema": 1,
        "valid": record.validity.json,
        "client": record.client,
        "kafka": record.kafka,
        "transaction_version": record.transaction_version,
        "cases": {
            "all": record.all_cases,
            "tried": len(record.cases),
            **{each.value.replace("-", "_"): counts[each] for each in CaseVerdict},
            "unsteady": sum(case.unsteady for case in record.cases.values()),
        },
        "findings": [
            {
                "request": request,
                "kind": kind,
                "anomalies": list(anomalies),
                "cases": len(cases),
                "smallest": min(cases, key=lambda name: (len(name), name)),
                "alone": f"{sum(record.cases[name].confirmed for name in cases)} of {len(cases)} each time",
            }
            for (request, kind, anomalies), cases in findings(record).items()
        ],
        "folder": str(folder),
    }


def findings(record: Exploration) -> Mapping[tuple[str, str, tuple[str, ...]], list[str]]:
    """Return the names of the wrong cases by request, kind and anomalies."""
    found: dict[tuple[str, str, tuple[str, ...]], list[str]] = defaultdict(list)
    for name, case in record.cases.items():
        if case.settled is CaseVerdict.WRONG:
            program, kind, request = parts_of(name)
            found[f"{program} {request}", kind, tuple(case.anomalies)].append(name)
    return found


def lines(record: Exploration, folder: Path) -> Iterator[str]:
    """Yield the outcome as lines for a terminal."""
    for program in record.sent:
        yield from _matrix(
            program, {name: case for name, case in record.cases.items() if parts_of(name)[0] == program}
        )
    yield LEGEND
    yield ""
    for (request, kind, anomalies), names in findings(record).items():
        times = [f"{name} ({_alone(record.cases[name])})" for name in names]
        yield f"{request} {kind}: {join_words(anomalies)}"
        yield from (f"    {line}" for line in times)
    for name, case in record.cases.items():
        if case.settled in (CaseVerdict.STUCK, CaseVerdict.NOT_MET):
            yield f"{case.settled}: {name}: {case.stuck or case.proof}"
    yield f"verdict  {record.validity.name.lower()}"
    counts = Counter(case.settled for case in record.cases.values())
    counted = ", ".join(f"{counts[each]} {each}" for each in CaseVerdict if counts[each])
    yield f"reason   {len(record.cases):,} of {plural(record.all_cases, 'case')} tried: {counted}"
    yield f"folder   {folder}"


def _alone(case: TriedCase) -> str:
    wrong = sum(each.verdict is CaseVerdict.WRONG for each in case.alone)
    return f"alone {wrong} of {len(case.alone)}"


def _matrix(program: str, cases: Mapping[str, TriedCase]) -> Iterator[str]:
    """Yield a table of a program: a row for each request, a column for each kind, and the count of each outcome."""
    cells: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for name, case in cases.items():
        _, kind, request = parts_of(name)
        cells[request, kind][SIGNS[case.settled]] += 1
    requests = list(dict.fromkeys(request for request, _ in cells))
    kinds = [kind for kind in CaseKind if any(kind == column for _, column in cells)]
    rows = [[program, *kinds]]
    rows += [
        [
            request,
            *(
                " ".join(f"{count}{sign}" for sign, count in sorted(cells[request, kind].items()))
                for kind in kinds
            ),
        ]
        for request in requests
    ]
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
    yield ""
