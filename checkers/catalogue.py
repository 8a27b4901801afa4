"""What can be found, told from the checkers' own docstrings, without starting or importing Spark."""

import ast
import re
from dataclasses import dataclass
from pathlib import Path

from checkers.checker import BOTH, Checker
from checkers.needs import NEEDS, PREMISES
from checkers.registry import CHECKERS
from harness.results.reasons import NO_JOURNALS


@dataclass(frozen=True)
class Anomaly:
    """One name of `verdict.json`."""

    name: str
    family: str  # transactions, records, inputs, log
    summary: str  # the first line of the docstring
    text: str  # all of it: definition, why it is illegal, evidence, example, blind spot, reference
    needs: tuple[str, ...]  # what a history must hold for it to be judged, in words
    warning: bool = False
    always_allowed: bool = False
    applies_to: str = BOTH  # in what it is looked for
    because: tuple[str, ...] = ()  # anomalies that it may follow from
    defined_with: tuple[str, ...] = ()  # the others that the same docstring defines

    @property
    def needs_journals(self) -> bool:
        """Whether nobody can say it of a pipeline that keeps none."""
        return NO_JOURNALS.text in self.needs

    @property
    def sentence(self) -> str:
        """What it is, as a part of a sentence: of several in one docstring what stands after its name there,
        else the summary without the name before it.
        """
        own = (
            re.search(rf"^ +{re.escape(self.name)}  +(\S.*)$", self.text, re.MULTILINE)
            if self.defined_with
            else None
        )
        if own is not None:
            return own[1]
        words = self.summary.partition(": ")[2] or self.summary
        return words[:1].lower() + words[1:].rstrip(".")


def catalogue() -> list[Anomaly]:
    """Every anomaly, in the order in which a report tells them."""
    return [anomaly for checker in CHECKERS for anomaly in _anomalies(checker)]


def _anomalies(checker: Checker) -> list[Anomaly]:
    """What one file finds."""
    code = (Path(__file__).parent / "anomalies" / f"{checker.module}.py").read_text(encoding="utf-8")
    text = ast.get_docstring(ast.parse(code)) or ""
    return [
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
            defined_with=tuple(other for other in checker.anomalies if other != name),
        )
        for name in checker.anomalies
    ]
