"""The docstrings of checkers are their specification: each has all parts, and its page is up to date."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from checkers.catalogue import INDEX, Anomaly, catalogue, page, pages, parts_of, write_pages

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs" / "anomalies"


@pytest.mark.parametrize("anomaly", catalogue(), ids=lambda anomaly: anomaly.name)
def test_a_docstring_is_a_specification(anomaly: Anomaly) -> None:
    parts = parts_of(anomaly.text)
    needed = ["", "Why it is illegal", "Evidence", "Example", "Blind spot", "Reference"]
    assert [heading for heading in parts if "journals" not in heading] == needed
    assert all(parts[heading] for heading in list(parts)[1:])
    assert anomaly.summary.endswith(".")


def test_no_two_anomalies_have_the_same_sentence() -> None:
    sentences = {anomaly.sentence: anomaly.name for anomaly in catalogue()}
    assert sorted(sentences.values()) == sorted(anomaly.name for anomaly in catalogue())


def test_the_pages_are_made_from_the_docstrings() -> None:
    made = pages()
    assert {path.name: path.read_text() for path in DOCS.iterdir()} == made, "run `make docs`"
    alone = {f"{anomaly.name}.md" for anomaly in catalogue() if anomaly.family != "cycles"}
    assert set(made) == {INDEX, "cycles.md", *alone}


def test_the_index_links_to_the_page_or_section_of_each_anomaly() -> None:
    linked = dict(re.findall(r"^\| \[(\S+)\]\((\S+)\) \|", pages()[INDEX], re.MULTILINE))
    assert set(linked) == {anomaly.name for anomaly in catalogue()}
    assert linked["G1c-ww"] == "cycles.md#g1c-ww" and linked["duplicate"] == "duplicate.md"


def test_every_link_of_a_page_leads_to_a_page_and_a_heading() -> None:
    made = pages()
    for name, text in made.items():
        for page_name, anchor in re.findall(r"\]\(([\w.-]*)#?([\w-]*)\)", text):
            target = made[page_name or name]
            assert not anchor or anchor in re.findall(r"^#+ (.+)$", target.lower(), re.MULTILINE), (
                name,
                anchor,
            )


def test_the_page_of_cycles_has_a_row_and_a_section_for_each_kind() -> None:
    text = pages()["cycles.md"]
    for anomaly in catalogue():
        if anomaly.family == "cycles":
            section = text.partition(f"\n## {anomaly.name}\n")[2].partition("\n## ")[0]
            assert f"{anomaly.sentence[1:]}." in section and "external histories" in section
            assert ("Always allowed" in section) is anomaly.always_allowed
            assert f"| [{anomaly.name}](#{anomaly.name.lower()}) | {anomaly.sentence} |" in text


@pytest.mark.processes
def test_a_command_writes_the_pages_and_removes_old_ones(tmp_path: Path) -> None:
    (tmp_path / "gone.md").write_text("the page of an anomaly that was removed")
    subprocess.run([sys.executable, "-P", "-m", "checkers.catalogue", str(tmp_path)], check=True, cwd=ROOT)
    assert {path.name for path in tmp_path.iterdir()} == set(pages())


def test_a_page_has_each_word_of_the_docstring() -> None:
    for anomaly in catalogue():
        words = anomaly.text
        for label in ("Blind spot:", "Reference:", "Evidence:", "Without journals:"):
            words = words.replace(label, "")
        assert set(words.lower().split()) <= set(page(anomaly).replace("**", " ").lower().split())


def test_a_page_says_how_an_anomaly_counts_in_a_verdict() -> None:
    some = catalogue()[0]
    text = page(
        replace(some, needs=("no log", "no clock"), warning=True, always_allowed=True, defined_with=("x-y",))
    )
    assert '`not_checked` with a reason: "no log" or "no clock".' in text
    assert "A warning" in text and "Always allowed" in text and "[x-y](x-y.md)" in text
    plain = page(replace(some, needs=(), because=(), applies_to="stored runs"))
    assert plain.endswith(
        "## In a verdict\n\n- Checked in stored runs.\n"
        "- Checked in the same way in a custom pipeline, which has no journals.\n"
    )


def test_the_page_of_a_removed_anomaly_is_deleted(tmp_path: Path) -> None:
    (tmp_path / "gone.md").write_text("")
    (tmp_path / "lost-write.md").write_text("an old text")
    write_pages(tmp_path)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == pages()


def test_every_name_is_unique() -> None:
    names = [anomaly.name for anomaly in catalogue()]
    assert len(names) == len({name.lower() for name in names}), "names are names of files"
