"""A suite as JUnit XML, as Markdown, and as a page."""

import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

from harness.results.suite import CellState
from reports.html.suite import draw
from reports.suites.junit import junit
from reports.suites.markdown import summary
from reports.suites.wording import headline
from tests.support.suites import cell, suite

HOSTILE = "<script>alert(1)</script> | `x` [a](b) \u202e\x00 \"'& ]]>"


def test_each_cell_is_a_test_case_and_a_known_failure_is_skipped() -> None:
    all_states = suite(*(cell(nemesis=str(n), state=state) for n, state in enumerate(CellState)))
    (suite_element,) = ElementTree.fromstring(junit(all_states))
    cases = {
        case.get("name"): [element.tag for element in case if element.tag != "properties"]
        for case in suite_element.iter("testcase")
    }
    assert [tags[0] for tags in cases.values()] == [
        "system-out",
        "system-out",
        "skipped",
        "failure",
        "failure",
        "error",
        "error",
        "error",
        "skipped",
    ]
    assert (
        suite_element.get("tests"),
        suite_element.get("failures"),
        suite_element.get("errors"),
        suite_element.get("skipped"),
    ) == (
        "9",
        "2",
        "3",
        "2",
    )
    case = suite_element.find("testcase")
    assert case is not None
    assert (case.get("classname"), case.get("time")) == ("nightly.shop.librdkafka", "95.000")
    properties = {element.get("name"): element.get("value") for element in case.iter("property")}
    assert properties["seed"] == "7"
    assert properties["report"] == f"{all_states.cells[0].run}/report.html"


def test_the_summary_has_a_row_for_each_bad_run_and_new_ones_come_first() -> None:
    three_cells = suite(
        cell(nemesis="a", state=CellState.FAILED),
        cell(nemesis="b", state=CellState.INVALID),
        cell(nemesis="c"),
    )
    text = summary(three_cells)
    assert headline(three_cells) == "1 valid, 1 invalid, 1 failed"
    assert text.startswith(
        "## Fencepost suite nightly: 1 new since 2026-11-23 20:00 UTC; 1 valid, 1 invalid, 1 failed\n"
    )
    rows = re.findall(r"^\| (\S \S+)", text, re.MULTILINE)
    assert rows == ["| run", "✕ invalid", "! failed"]
    assert "no longer fails" in text


def test_the_summary_of_a_good_suite_has_no_table() -> None:
    assert "|" not in summary(suite(cell(), remarks=()))


@pytest.mark.parametrize("state", CellState)
def test_texts_of_a_suite_cannot_become_markup(state: CellState) -> None:
    hostile = cell(
        state=state,
        workload=HOSTILE,
        kafka=HOSTILE,
        reason=HOSTILE,
        known=HOSTILE,
        expected=HOSTILE,
        command=HOSTILE,
        more={HOSTILE: HOSTILE},
        new=True,
        anomalies={HOSTILE: 1},
        first=HOSTILE,
        codes=(HOSTILE,),
        faults={HOSTILE: 1, HOSTILE + "2": 0},
        not_exercised={HOSTILE + "2": HOSTILE},
    )
    hostile_suite = suite(hostile, name="night", file=HOSTILE, remarks=(HOSTILE,))
    page = draw(hostile_suite)
    assert page.count("<script>") == 1
    assert "alert(1)</script>" not in page
    assert ElementTree.fromstring(junit(hostile_suite)) is not None
    for line in summary(hostile_suite).splitlines():
        if line.startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", line)) == 9


def test_the_page_loads_nothing(tmp_path: Path) -> None:
    page = draw(suite())
    assert "default-src &#39;none&#39;" in page
    assert not re.findall(r"(?:src|@import|url\()\s*=?\s*[\"']?(?:https?:)?//", page)


def test_the_page_links_only_to_reports_that_exist() -> None:
    default_suite = suite()
    links = re.findall(r'href="(runs/[^"]+)"', draw(default_suite))
    none = (CellState.FAILED, CellState.NOT_CHECKED, CellState.NOT_RUN)
    with_verdict = [linked for linked in default_suite.cells if linked.state not in none]
    assert len(links) == len(with_verdict)
    assert all(link.endswith("/report.html") for link in links)


def test_several_versions_of_kafka_are_columns_of_the_grid() -> None:
    two_versions = suite(cell(), cell(kafka="4.2.0", name="shop on 4.2.0"))
    assert re.findall(r'<td data-label="([^"]+)">', draw(two_versions)) == [
        "kill-broker on 4.3.1",
        "kill-broker on 4.2.0",
    ]
    assert re.findall(r'<td data-label="([^"]+)">', draw(suite(cell()))) == ["kill-broker"]


def test_a_thousand_cells_are_drawn_in_seconds() -> None:
    assert (
        draw(suite(*(cell(nemesis=f"n{n}") for n in range(1000)))).count('<li class="run-of-suite"') == 1000
    )


@pytest.mark.parametrize(
    ("states", "title"),
    [
        ((CellState.UNKNOWN, CellState.VALID), "? 1 of 2 runs needs a look"),
        ((CellState.INVALID, CellState.UNKNOWN, CellState.VALID), "✕ 2 of 3 runs need a look"),
        ((CellState.VALID,), "✓ No run needs a look"),
        ((CellState.NOT_RUN,), "? Not all runs have a verdict"),
    ],
)
def test_the_heading_says_how_many_runs_need_a_look(states: Sequence[CellState], title: str) -> None:
    page = draw(suite(*(cell(f"w{n}", state=state) for n, state in enumerate(states))))
    assert f">{title}</h1>" in page
