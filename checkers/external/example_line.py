"""Describe an example of an external history in one line."""

import json
from collections.abc import Mapping
from typing import Any

from harness.results.example import Example

_OPERATION = frozenset({"op", "process", "f", "outcome", "invoked", "invoke_ns", "complete_ns"})


def line(example: Example) -> str:
    """Return the fields of an example in one line; for a cycle its steps. The text is not escaped yet."""
    if isinstance(steps := example.facts.get("steps"), list):
        return "; ".join(map(str, steps))
    return "; ".join(f"{name.replace('_', ' ')} {_thing(value)}" for name, value in example.as_json().items())


def _thing(value: Any) -> str:
    """Return for example `T6 (process 0, ok) "x" 3 @ 1012`: an operation by its line, a record by key, value and
    offset.
    """
    if isinstance(value, list):
        return ", ".join(map(_thing, value))
    if not isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False)
    words = []
    if "op" in value:
        details = [f"process {value['process']}"] if "process" in value else []
        words.append(f"T{value['op']} ({', '.join([*details, str(value.get('outcome', 'unknown'))])})")
    words += [json.dumps(value[name], ensure_ascii=False) for name in ("key", "value") if name in value]
    if "offset" in value:
        words.append(f"@ {value['offset']}")
    rest = value.keys() - _OPERATION - {"key", "value", "offset"}
    words += [f"{name.replace('_', ' ')} {_thing(value[name])}" for name in value if name in rest]
    return " ".join(words)
