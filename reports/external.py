"""Examples of external histories, in a line each: these have no report."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from harness.history_files.schema import KNOWN
from harness.verdict import Verdict
from reports.console import headed
from reports.words import printable, several

CHARACTERS = 600
"""Of an example, at most: all of it is in `verdict.json`."""
_OPERATION = frozenset({"op", "process", "f", "outcome", "invoked", "invoke_ns", "complete_ns"})


def explanations(verdict: Verdict) -> Iterator[str]:
    """For each anomaly that counts, how often it was found and what the first example says; and what nobody
    has judged.
    """
    if over := verdict.stats.get("passed_over"):
        yield f"{several(over, 'operation')} passed over: f is none of {', '.join(KNOWN)}"
    for name, found in verdict.anomalies.items():
        if found.example:
            yield f"{headed(name, found)}: {printable(_example(found.example), CHARACTERS)}"


def _example(example: Mapping[str, Any]) -> str:
    """The steps of a cycle, or what it holds, one after the other."""
    if "steps" in example:
        return "; ".join(example["steps"])
    return "; ".join(f"{name.replace('_', ' ')} {_thing(held)}" for name, held in example.items())


def _thing(held: Any) -> str:
    """`T6 (process 0, ok) "x" 3 @ 1012`: an operation by its line, a record by key, value and offset."""
    if isinstance(held, list):
        return ", ".join(map(_thing, held))
    if not isinstance(held, Mapping):
        return json.dumps(held, ensure_ascii=False)
    words = []
    if "op" in held:
        known = [f"process {held['process']}"] if "process" in held else []
        words.append(f"T{held['op']} ({', '.join([*known, held.get('outcome', 'unknown')])})")
    words += [json.dumps(held[name], ensure_ascii=False) for name in ("key", "value") if name in held]
    if "offset" in held:
        words.append(f"@ {held['offset']}")
    rest = held.keys() - _OPERATION - {"key", "value", "offset"}
    words += [f"{name.replace('_', ' ')} {_thing(held[name])}" for name in held if name in rest]
    return " ".join(words)
