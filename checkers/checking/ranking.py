"""Rank few findings and join them to their causes, without Spark (many: see `checkers.checking.run_checks`)."""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from checkers.findings.form import Findings
from harness.results.example import Example

Key = tuple[int, str, bool]
Rows = Sequence[Mapping[str, Any]]


def first_of_few(rows: Rows, examples: int) -> dict[Key, Findings]:
    """Count the findings of each run, anomaly and absence, and keep the first `examples` of each.

    One finding of each operation comes before a second one of any, because many findings of one transaction say the
    same.
    """
    by_key: dict[Key, list[Mapping[str, Any]]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row["position"], row["detail"])):
        by_key[row["run"], row["anomaly"], row["absence"]].append(row)
    ranked_findings = {}
    for key, findings in by_key.items():
        per_operation: Counter[int] = Counter()
        ranked = []
        for number, row in enumerate(findings):
            op = row["ops"][0] if row["ops"] else None
            operation = op if op is not None else -1 - row["position"][0]
            per_operation[operation] += 1
            ranked.append((per_operation[operation], number))
        first = [findings[number] for _, number in sorted(ranked)[:examples]]
        ranked_findings[key] = Findings(
            count=len(findings),
            examples=[Example.from_json(json.loads(row["detail"])) for row in first],
            positions=[row["position"] for row in first],
        )
    return ranked_findings


def causes_of_few(rows: Rows) -> set[tuple[int, str, str]]:
    """Return run, effect and cause, where every finding of the effect shares an operation with one of the cause."""
    anomalies_of: dict[tuple[int, int], set[str]] = defaultdict(set)
    for row in rows:
        for op in row["ops"] or ():
            if op is not None:
                anomalies_of[row["run"], op].add(row["anomaly"])
    common: dict[tuple[int, str], set[str]] = {}
    for row in rows:
        shared = set().union(*(anomalies_of.get((row["run"], op), set()) for op in row["ops"] or ()))
        key = (row["run"], row["anomaly"])
        common[key] = common[key] & shared if key in common else shared
    pairs = ((key, cause) for key, causes in common.items() for cause in causes)
    return {(run, effect, cause) for (run, effect), cause in pairs if cause != effect}
