"""The words for an anomaly: its name with a count, its meaning, and a sentence for an example."""

from collections.abc import Callable
from dataclasses import dataclass

from harness.results.example import Example
from harness.results.wording import number


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
