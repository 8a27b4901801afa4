"""The words for an anomaly: its name with a count, its meaning, and a sentence for an example."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checkers.findings.build import MAX_SHOWN
from harness.results.example import Example
from harness.results.wording import join_words, number


def join_shown(parts: Sequence[str], most: int = 4) -> str:
    """Return `a, b and c` for parts of an example. If there may be more than it stores, add `of the first 20`."""
    return join_words(parts, most) + (f" of the first {len(parts)}" if len(parts) >= MAX_SHOWN else "")


@dataclass(frozen=True)
class AnomalyWording:
    """The words for one anomaly. `WORDING` in a file of `checkers/anomalies` maps each name that it finds to one."""

    singular: str  # completes "1 ..."
    plural: str  # completes "3 ..."
    meaning: str  # the meaning of the anomaly, in one or two sentences
    sentence: Callable[[Example], str]
    """Describes an example in one sentence, without a full stop. If the example lacks something, the sentence leaves it
    out or calls it unknown."""

    def describe_count(self, count: int) -> str:
        """Return the count with the noun, such as `3 records are stored more than once`."""
        return f"{number(count)} {self.singular if count == 1 else self.plural}"


_OPERATION = frozenset({"op", "process", "f", "outcome", "invoked", "invoke_ns", "complete_ns"})


def line(example: Example) -> str:
    """Describe an example of an external history in one line: its fields, or the steps of a cycle.

    The text is not escaped yet.
    """
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
