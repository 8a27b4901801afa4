"""Few findings, ranked and joined to their causes without Spark (many: see `checkers.checking.run_checks`)."""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from checkers.findings.form import Findings

Key = tuple[int, str, bool]
Rows = Sequence[Mapping[str, Any]]


def first_of_few(rows: Rows, examples: int) -> dict[Key, Findings]:
    """By run, anomaly and absence: how many there are, and the first.

    One of each operation before a second one of any: ten of one transaction would tell one thing ten times.
    """
    by_key: dict[Key, list[Mapping[str, Any]]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row["position"], row["detail"])):
        by_key[row["run"], row["anomaly"], row["absence"]].append(row)
    found = {}
    for key, here in by_key.items():
        turns: Counter[int] = Counter()
        ranked = []
        for number, row in enumerate(here):
            op = row["ops"][0] if row["ops"] else None
            own = op if op is not None else -1 - row["position"][0]
            turns[own] += 1
            ranked.append((turns[own], number))
        first = [here[number] for _, number in sorted(ranked)[:examples]]
        found[key] = Findings(
            count=len(here),
            examples=[json.loads(row["detail"]) for row in first],
            positions=[row["position"] for row in first],
        )
    return found


def causes_of_few(rows: Rows) -> set[tuple[int, str, str]]:
    """Run, effect and cause, where every finding of the effect shares an operation with one of the cause."""
    touched: dict[tuple[int, int], set[str]] = defaultdict(set)
    for row in rows:
        for op in row["ops"] or ():
            if op is not None:
                touched[row["run"], op].add(row["anomaly"])
    common: dict[tuple[int, str], set[str]] = {}
    for row in rows:
        shared = set().union(*(touched.get((row["run"], op), set()) for op in row["ops"] or ()))
        key = (row["run"], row["anomaly"])
        common[key] = common[key] & shared if key in common else shared
    pairs = ((key, cause) for key, causes in common.items() for cause in causes)
    return {(run, effect, cause) for (run, effect), cause in pairs if cause != effect}
