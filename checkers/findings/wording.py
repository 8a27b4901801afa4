"""The words for an anomaly: its name with a count, its meaning, and a sentence for an example."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
