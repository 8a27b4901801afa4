"""How an anomaly is told: what a number of them is called, what it means, and an example in a sentence."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.results.example import Example
from harness.results.wording import number


@dataclass(frozen=True)
class AnomalyWording:
    """Each file of `checkers/anomalies` has a TOLD: one of these for each name that it finds."""

    one: str  # completes "1 ..."
    many: str  # completes "3 ..."
    meaning: str  # what the anomaly is, in a sentence or two
    sentence: Callable[[Example], str]
    """An example in one sentence, without a full stop. What the example lacks is left out or called unknown,
    never invented."""

    def counted(self, count: int) -> str:
        """`3 outputs are duplicates: their inputs took effect twice`."""
        return f"{number(count)} {self.one if count == 1 else self.many}"

    def tell(self, example: Mapping[str, Any]) -> str:
        """The example in its sentence; safe to show."""
        return self.sentence(Example(example))
