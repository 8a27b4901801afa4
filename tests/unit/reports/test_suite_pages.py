"""What is told of a suite: JUnit, Markdown, and the page."""

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


def test_each_cell_is_one_test_and_a_known_failure_fails_none() -> None:
    made = suite(*(cell(nemesis=str(n), state=state) for n, state in enumerate(CellState)))
    (whole,) = ElementTree.fromstring(junit(made))
    cases = {
        case.get("name"): [one.tag for one in case if one.tag != "properties"]
        for case in whole.iter("testcase")
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
    assert (whole.get("tests"), whole.get("failures"), whole.get("errors"), whole.get("skipped")) == (
        "9",
        "2",
        "3",
        "2",
    )
    case = whole.find("testcase")
    assert case is not None
    assert (case.get("classname"), case.get("time")) == ("nightly.shop.librdkafka", "95.000")
    properties = {one.get("name"): one.get("value") for one in case.iter("property")}
    assert properties["seed"] == "7"
    assert properties["report"] == f"{made.cells[0].run}/report.html"


def test_the_summary_has_a_row_for_each_run_that_needs_a_look_the_new_ones_first() -> None:
    made = suite(
        cell(nemesis="a", state=CellState.FAILED),
        cell(nemesis="b", state=CellState.INVALID),
        cell(nemesis="c"),
    )
    text = summary(made)
    assert headline(made) == "1 valid, 1 invalid, 1 failed"
    assert text.startswith(
        "## Fencepost suite nightly: 1 new since 2026-11-23 20:00 UTC; 1 valid, 1 invalid, 1 failed\n"
    )
    rows = re.findall(r"^\| (\S \S+)", text, re.MULTILINE)
    assert rows == ["| run", "✕ invalid", "! failed"]
    assert "no longer fails" in text


def test_the_summary_of_a_good_night_has_no_table() -> None:
    assert "|" not in summary(suite(cell(), remarks=()))


@pytest.mark.parametrize("state", CellState)
def test_nothing_that_a_suite_says_becomes_markup(state: CellState) -> None:
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
    made = suite(hostile, name="night", file=HOSTILE, remarks=(HOSTILE,))
    page = draw(made)
    assert page.count("<script>") == 1
    assert "alert(1)</script>" not in page
    assert ElementTree.fromstring(junit(made)) is not None
    for line in summary(made).splitlines():
        if line.startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", line)) == 9


def test_the_page_loads_nothing(tmp_path: Path) -> None:
    page = draw(suite())
    assert "default-src &#39;none&#39;" in page
    assert not re.findall(r"(?:src|@import|url\()\s*=?\s*[\"']?(?:https?:)?//", page)


def test_the_page_links_to_reports_that_there_are() -> None:
    made = suite()
    links = re.findall(r'href="(runs/[^"]+)"', draw(made))
    none = (CellState.FAILED, CellState.NOT_CHECKED, CellState.NOT_RUN)
    judged = [one for one in made.cells if one.state not in none]
    assert len(links) == len(judged)
    assert all(link.endswith("/report.html") for link in links)


def test_versions_of_kafka_are_columns_where_there_are_several() -> None:
    made = suite(cell(), cell(kafka="4.2.0", name="shop on 4.2.0"))
    assert re.findall(r'<td data-label="([^"]+)">', draw(made)) == [
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
def test_the_head_says_how_many_runs_need_a_look(states: Sequence[CellState], title: str) -> None:
    made = draw(suite(*(cell(f"w{n}", state=state) for n, state in enumerate(states))))
    assert f">{title}</h1>" in made
