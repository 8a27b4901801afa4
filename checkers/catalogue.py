"""All anomalies, read from the docstrings of the checkers, and their pages. This does not import Spark.

Each anomaly has a page. The kinds of cycles share one page, on which each has a section. `make docs` writes the pages
and their index:

    python -m checkers.catalogue FOLDER
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from checkers.checker import BOTH, EXTERNAL_HISTORIES, NEEDS, PREMISES, Checker
from checkers.external_tables import GRAPHS
from checkers.registry import CHECKERS
from harness.results.reasons import NO_JOURNALS

INDEX = "README.md"
CYCLES = "cycles"
"""The family whose anomalies share one page, and the name of that page."""
PARTS = {
    "Illegal because": "Why it is illegal",
    "Evidence:": "Evidence",
    "Without journals:": "In a custom pipeline, without journals",
    "Blind spot:": "Blind spot",
    "Reference:": "Reference",
}
"""The heading of each part of a docstring, by the words with which the part begins."""
EXAMPLE = "Example"
BEGINNING = re.compile(rf"^({'|'.join(PARTS)})", re.MULTILINE)


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


def pages() -> dict[str, str]:
    """Return the text of each page by its file name."""
    anomalies = catalogue()
    cycles = [anomaly for anomaly in anomalies if anomaly.family == CYCLES]
    return {
        INDEX: index(anomalies),
        f"{CYCLES}.md": page_of_cycles(cycles),
        **{f"{anomaly.name}.md": page(anomaly) for anomaly in anomalies if anomaly.family != CYCLES},
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
    names = "|".join(re.escape(anomaly.name) for anomaly in cycles)
    prose = re.sub(rf"^    (?:{names})  .*\n?", "", definition[1], flags=re.MULTILINE).strip()
    table = ["| anomaly | meaning | in a verdict |", "| --- | --- | --- |"]
    for anomaly in cycles:
        counts = "always allowed" if anomaly.always_allowed else "illegal"
        table.append(f"| [{anomaly.name}](#{anomaly.name.lower()}) | {anomaly.sentence} | {counts} |")
    text = ["# Cycles", f"**{cycles[0].summary}**", prose, "\n".join(table)]
    for heading, part in parts:
        text += [f"## {heading}", part]
    for anomaly in cycles:
        sentence = f"{anomaly.sentence[:1].upper()}{anomaly.sentence[1:]}."
        text += [f"## {anomaly.name}", sentence, _bullets(_in_a_verdict(replace(anomaly, defined_with=())))]
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
    """Return the parts of a docstring below its first line, by heading. The heading of the definition is empty."""
    body = docstring.partition("\n")[2]
    definition, *rest = BEGINNING.split(body)
    parts = {"": definition.strip("\n")}
    for label, raw in zip(rest[::2], rest[1::2], strict=True):
        text = raw.strip()
        # A label with a colon is replaced by its heading. "Illegal because" begins a sentence, so it stays.
        parts[PARTS[label]] = text[:1].upper() + text[1:] if label.endswith(":") else f"{label} {text}"
        words, example, lines = parts[PARTS[label]].partition("\n\n    ")
        if example:
            parts |= {PARTS[label]: words, EXAMPLE: f"    {lines}"}
    return parts


def _in_a_verdict(anomaly: Anomaly) -> Iterator[str]:
    where = "stored runs and external histories" if anomaly.applies_to == BOTH else anomaly.applies_to
    yield f"Checked in {where}."
    if anomaly.needs:
        reasons = " or ".join(f'"{need}"' for need in anomaly.needs)
        yield f"If it cannot be checked, it is listed in `not_checked` with a reason: {reasons}."
    if (
        anomaly.applies_to != EXTERNAL_HISTORIES
        and not anomaly.needs_journals
        and "\nWithout journals:" not in anomaly.text
    ):
        yield "Checked in the same way in a custom pipeline, which has no journals."
    if anomaly.warning:
        yield "A warning: it is listed, but never decides a verdict."
    if anomaly.always_allowed:
        yield "Always allowed: it is listed, but never decides a verdict."
    if anomaly.because:
        yield f"It may be a consequence of {', '.join(map(link, anomaly.because))}."
    if anomaly.defined_with:
        yield f"Defined together with {', '.join(map(link, anomaly.defined_with))}."


def link(name: str) -> str:
    """Return a link to the page of an anomaly, or to its section of the page of cycles."""
    cycle = name in {graph.name for graph in GRAPHS}
    return f"[{name}]({CYCLES}.md#{name.lower()})" if cycle else f"[{name}]({name}.md)"


def index(anomalies: list[Anomaly]) -> str:
    """Return the index: all names with their sentences, by family."""
    lines = [
        "# Anomalies",
        "",
        "The names in `verdict.json`. Each anomaly has a page. All kinds of cycles share [one page](cycles.md).",
        "`make docs` makes the pages from the checkers' docstrings.",
        "`fencepost list anomalies NAME` prints the page of one anomaly.",
        "",
    ]
    by_family = attrgetter("family")
    for family, members in groupby(sorted(anomalies, key=by_family), by_family):
        lines += [f"## {family.capitalize()}", "", "| anomaly | meaning |", "| --- | --- |"]
        lines += [f"| {link(anomaly.name)} | {anomaly.sentence} |" for anomaly in members] + [""]
    return "\n".join(lines)


def write_pages(folder: Path) -> None:
    """Write all pages, and remove the pages of anomalies that no longer exist."""
    folder.mkdir(exist_ok=True)
    texts = pages()
    for path in folder.glob("*.md"):
        if path.name not in texts:
            path.unlink()
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]))
