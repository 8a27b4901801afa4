"""A page for each anomaly, and their index, made from the checkers' docstrings: `make docs` writes them.

python -m checkers.pages FOLDER
"""

import re
import sys
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path

from checkers.catalogue import Anomaly, catalogue
from checkers.checker import BOTH, HISTORIES

INDEX = "README.md"
PARTS = {
    "Illegal because": "Why it is illegal",
    "Evidence:": "Evidence",
    "Without journals:": "In a pipeline that keeps no journals",
    "Blind spot:": "Blind spot",
    "Reference:": "Reference",
}
"""How a part of a docstring begins, and its heading."""
EXAMPLE = "Example"
BEGINNING = re.compile(rf"^({'|'.join(PARTS)})", re.MULTILINE)


def pages() -> dict[str, str]:
    """By the file's name: the text."""
    anomalies = catalogue()
    return {INDEX: index(anomalies), **{f"{one.name}.md": page(one) for one in anomalies}}


def page(anomaly: Anomaly) -> str:
    """All that is known of one anomaly."""
    definition, *parts = parts_of(anomaly.text).items()
    told = [f"# `{anomaly.name}`", f"**{anomaly.summary}**", definition[1]]
    for heading, text in parts:
        told += [f"## {heading}", text]
    told += ["## In a verdict", "\n".join(f"- {words}" for words in _in_a_verdict(anomaly))]
    return "\n\n".join(part for part in told if part) + "\n"


def parts_of(docstring: str) -> Mapping[str, str]:
    """By heading: the parts of a docstring below its first line; the definition has none."""
    body = docstring.partition("\n")[2]
    definition, *rest = BEGINNING.split(body)
    parts = {"": definition.strip("\n")}
    for label, raw in zip(rest[::2], rest[1::2], strict=True):
        text = raw.strip()
        # What a colon ends is a heading already; the other label begins a sentence.
        parts[PARTS[label]] = text[:1].upper() + text[1:] if label.endswith(":") else f"{label} {text}"
        words, example, lines = parts[PARTS[label]].partition("\n\n    ")
        if example:
            parts |= {PARTS[label]: words, EXAMPLE: f"    {lines}"}
    return parts


def _in_a_verdict(anomaly: Anomaly) -> Iterator[str]:
    """In what it is looked for, what it depends on, and how it counts."""
    where = "stored runs and external histories" if anomaly.judges == BOTH else anomaly.judges
    yield f"Looked for in {where}."
    if anomaly.needs:
        reasons = " or ".join(f'"{need}"' for need in anomaly.needs)
        yield f"Where its evidence is missing it stands in `not_checked`: {reasons}."
    if (
        anomaly.judges != HISTORIES
        and not anomaly.needs_journals
        and "\nWithout journals:" not in anomaly.text
    ):
        yield "Judged alike in a pipeline that keeps no journals."
    if anomaly.warning:
        yield "A warning: it is listed, and never decides."
    if anomaly.always_allowed:
        yield "It is listed, and always allowed."
    if anomaly.because:
        yield f"It may follow from {_links(anomaly.because)}."
    if anomaly.kin:
        yield f"Defined together with {_links(anomaly.kin)}."


def _links(names: tuple[str, ...]) -> str:
    return ", ".join(f"[{name}]({name}.md)" for name in names)


def index(anomalies: list[Anomaly]) -> str:
    """All names with their sentences, family by family."""
    told = [
        "# Anomalies",
        "",
        "The names in `verdict.json`, each with its page, which is made from its checker's docstring by",
        "`make docs`; `fencepost list anomalies NAME` prints one of them.",
        "",
    ]
    for family, members in groupby(sorted(anomalies, key=lambda one: one.family), lambda one: one.family):
        told += [f"## {family.capitalize()}", "", "| anomaly | |", "| --- | --- |"]
        told += [f"| [{one.name}]({one.name}.md) | {one.sentence} |" for one in members] + [""]
    return "\n".join(told)


def write_pages(folder: Path) -> None:
    """Write all pages, and remove those of anomalies that are gone."""
    folder.mkdir(exist_ok=True)
    made = pages()
    for old in folder.glob("*.md"):
        if old.name not in made:
            old.unlink()
    for name, text in made.items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]))
