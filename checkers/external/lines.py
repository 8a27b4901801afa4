"""An example of an external history, in a line."""

import json
from collections.abc import Mapping
from typing import Any

_OPERATION = frozenset({"op", "process", "f", "outcome", "invoked", "invoke_ns", "complete_ns"})


def line(example: Mapping[str, Any]) -> str:
    """What an example holds, one after the other; of a cycle its steps. It is not yet safe to show."""
    if isinstance(steps := example.get("steps"), list):
        return "; ".join(map(str, steps))
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
        words.append(f"T{held['op']} ({', '.join([*known, str(held.get('outcome', 'unknown'))])})")
    words += [json.dumps(held[name], ensure_ascii=False) for name in ("key", "value") if name in held]
    if "offset" in held:
        words.append(f"@ {held['offset']}")
    rest = held.keys() - _OPERATION - {"key", "value", "offset"}
    words += [f"{name.replace('_', ' ')} {_thing(held[name])}" for name in held if name in rest]
    return " ".join(words)
