"""The pages of the anomalies and their index, made from the checkers' docstrings: `make docs` writes them.

Each anomaly has a page. The kinds of cycles share one page, on which each has a section.

python -m checkers.pages FOLDER
"""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from checkers.catalogue import Anomaly, catalogue
from checkers.checker import BOTH, EXTERNAL_HISTORIES
from checkers.external.graph.names import GRAPHS

INDEX = "README.md"
CYCLES = "cycles"
"""The family whose anomalies share one page, and the name of that page."""
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
    """Return the text of each page by its file name."""
    anomalies = catalogue()
    cycles = [one for one in anomalies if one.family == CYCLES]
    return {
        INDEX: index(anomalies),
        f"{CYCLES}.md": page_of_cycles(cycles),
        **{f"{one.name}.md": page(one) for one in anomalies if one.family != CYCLES},
    }


def page(anomaly: Anomaly) -> str:
    """Return the specification of one anomaly and how it counts in a verdict."""
    definition, *parts = parts_of(anomaly.text).items()
    text = [f"# `{anomaly.name}`", f"**{anomaly.summary}**", definition[1]]
    for heading, part in parts:
        text += [f"## {heading}", part]
    text += ["## In a verdict", _bullets(_in_a_verdict(anomaly))]
    return _joined(text)


def page_of_cycles(cycles: list[Anomaly]) -> str:
    """Return the page of all kinds of cycles: their specification, a table of the kinds, and a section for each."""
    definition, *parts = parts_of(cycles[0].text).items()
    names = "|".join(re.escape(one.name) for one in cycles)
    prose = re.sub(rf"^    (?:{names})  .*\n?", "", definition[1], flags=re.MULTILINE).strip()
    table = ["| anomaly | meaning | in a verdict |", "| --- | --- | --- |"]
    for one in cycles:
        counts = "always allowed" if one.always_allowed else "illegal"
        table.append(f"| [{one.name}](#{one.name.lower()}) | {one.sentence} | {counts} |")
    text = ["# Cycles", f"**{cycles[0].summary}**", prose, "\n".join(table)]
    for heading, part in parts:
        text += [f"## {heading}", part]
    for one in cycles:
        sentence = f"{one.sentence[:1].upper()}{one.sentence[1:]}."
        text += [f"## {one.name}", sentence, _bullets(_in_a_verdict(replace(one, defined_with=())))]
    return _joined(text)


def _bullets(sentences: Iterable[str]) -> str:
    return "\n".join(f"- {sentence}" for sentence in sentences)


def _joined(parts: Iterable[str]) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"


def summarize(anomaly: Anomaly) -> str:
    """Return the definition of an anomaly, its example and its blind spot, for a terminal."""
    parts = parts_of(anomaly.text)
    file = f"{CYCLES if anomaly.family == CYCLES else anomaly.name}.md"
    text = [f"{anomaly.name}, an anomaly", anomaly.summary, parts[""]]
    text += [f"{heading}:\n\n{parts[heading]}" for heading in (EXAMPLE, PARTS["Blind spot:"])]
    text += [f"page        docs/anomalies/{file} (`fencepost list anomalies {anomaly.name}` prints it)"]
    return "\n\n".join(text)


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
    where = "stored runs and external histories" if anomaly.applies_to == BOTH else anomaly.applies_to
    yield f"Looked for in {where}."
    if anomaly.needs:
        reasons = " or ".join(f'"{need}"' for need in anomaly.needs)
        yield f"Where its evidence is missing it stands in `not_checked`: {reasons}."
    if (
        anomaly.applies_to != EXTERNAL_HISTORIES
        and not anomaly.needs_journals
        and "\nWithout journals:" not in anomaly.text
    ):
        yield "Judged alike in a pipeline that keeps no journals."
    if anomaly.warning:
        yield "A warning: it is listed, and never decides."
    if anomaly.always_allowed:
        yield "It is listed, and always allowed."
    if anomaly.because:
        yield f"It may follow from {', '.join(map(link, anomaly.because))}."
    if anomaly.defined_with:
        yield f"Defined together with {', '.join(map(link, anomaly.defined_with))}."


def link(name: str) -> str:
    """Return a link to the page of an anomaly, or to its section of the page of cycles."""
    cycle = name in {graph.name for graph in GRAPHS}
    return f"[{name}]({CYCLES}.md#{name.lower()})" if cycle else f"[{name}]({name}.md)"


def index(anomalies: list[Anomaly]) -> str:
    """All names with their sentences, family by family."""
    told = [
        "# Anomalies",
        "",
        "The names in `verdict.json`. Each has a page; all kinds of cycles are on [one page](cycles.md).",
        "`make docs` makes the pages from the checkers' docstrings.",
        "`fencepost list anomalies NAME` prints what is known of one anomaly.",
        "",
    ]
    for family, members in groupby(sorted(anomalies, key=lambda one: one.family), lambda one: one.family):
        told += [f"## {family.capitalize()}", "", "| anomaly | |", "| --- | --- |"]
        told += [f"| {link(one.name)} | {one.sentence} |" for one in members] + [""]
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
