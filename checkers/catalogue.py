"""What can be found, told from the checkers' own docstrings, without starting or importing Spark."""

import ast
from dataclasses import dataclass
from pathlib import Path

from checkers.registry import BOTH, CHECKERS, NEEDS


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
    judges: str = BOTH  # in what it is looked for


def catalogue() -> list[Anomaly]:
    """Every anomaly, in the order in which a report tells them."""
    found = []
    for checker in CHECKERS:
        text = (
            ast.get_docstring(ast.parse((Path(__file__).parent / f"{checker.module}.py").read_text())) or ""
        )
        summary = text.partition("\n")[0].strip()
        needs = tuple(NEEDS[need] for need in checker.needs)
        for name in checker.anomalies:
            found.append(
                Anomaly(
                    name,
                    checker.family,
                    summary,
                    text,
                    needs,
                    checker.warning,
                    name in checker.always_allowed,
                    checker.judges,
                )
            )
    return found


def as_markdown() -> str:
    """The page `docs/anomalies.md`."""
    parts = ["# Anomalies", "", "Made from the checkers' docstrings by `python -m checkers.catalogue`.", ""]
    family = ""
    for anomaly in sorted(catalogue(), key=lambda anomaly: anomaly.family):
        if anomaly.family != family:
            family = anomaly.family
            parts += [f"## {family.capitalize()}", ""]
        body = anomaly.text.partition("\n")[2].strip()
        parts += [f"### `{anomaly.name}`", "", f"**{anomaly.summary}**", "", body, ""]
        if anomaly.judges != BOTH:
            parts += [f"Looked for in {anomaly.judges} alone.", ""]
        if anomaly.needs:
            parts += [f"Not checked where: {'; '.join(anomaly.needs)}.", ""]
    return "\n".join(parts)


if __name__ == "__main__":
    Path(__file__).parent.parent.joinpath("docs", "anomalies.md").write_text(as_markdown())
