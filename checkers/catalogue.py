"""All anomalies, read from the docstrings of the checkers. This does not import Spark."""

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from checkers.checker import BOTH, Checker
from checkers.needs import NEEDS, PREMISES
from checkers.registry import CHECKERS
from harness.results.reasons import NO_JOURNALS


@dataclass(frozen=True)
class Anomaly:
    """One anomaly, by its name in `verdict.json`."""

    name: str
    family: str  # transactions, records, inputs, log
    summary: str  # the first line of the docstring
    text: str  # the whole docstring: definition, why it is illegal, evidence, example, blind spot, reference
    needs: tuple[
        str, ...
    ]  # the texts of the reasons in `not_checked` if evidence is missing or a premise is broken
    warning: bool = False
    always_allowed: bool = False
    applies_to: str = BOTH  # stored runs, external histories, or both
    because: tuple[str, ...] = ()  # anomalies of which it may be a consequence
    defined_with: tuple[str, ...] = ()  # the other anomalies that the same docstring defines

    @property
    def needs_journals(self) -> bool:
        """True if the anomaly cannot be checked without journals."""
        return NO_JOURNALS.text in self.needs

    @property
    def sentence(self) -> str:
        """The definition of the anomaly, as a part of a sentence.

        If the docstring defines several anomalies, this is the text after the name in their list. If not, it is the
        summary without the name at its start.
        """
        row = re.search(rf"^ +{re.escape(self.name)}  +(\S.*)$", self.text, re.MULTILINE)
        if self.defined_with and row is not None:
            return row[1]
        words = self.summary.partition(": ")[2] or self.summary
        return words[:1].lower() + words[1:].rstrip(".")


def catalogue() -> list[Anomaly]:
    """Return every anomaly, in the order of reports."""
    return [anomaly for checker in CHECKERS for anomaly in _anomalies(checker)]


@cache
def _anomalies(checker: Checker) -> tuple[Anomaly, ...]:
    code = (Path(__file__).parent / "anomalies" / f"{checker.module}.py").read_text(encoding="utf-8")
    text = ast.get_docstring(ast.parse(code)) or ""
    return tuple(
        Anomaly(
            name=name,
            family=checker.family,
            summary=text.partition("\n")[0].strip(),
            text=text,
            needs=tuple(
                reason.text
                for reason in (
                    *map(NEEDS.__getitem__, checker.needs),
                    *map(PREMISES.__getitem__, checker.premises),
                )
            ),
            warning=checker.warning,
            always_allowed=name in checker.always_allowed,
            applies_to=checker.applies_to,
            because=tuple(because.cause for because in checker.because),
            defined_with=tuple(sibling for sibling in checker.anomalies if sibling != name),
        )
        for name in checker.anomalies
    )
