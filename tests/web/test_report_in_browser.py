from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from playwright.sync_api import Page, expect

from fencepost import registry
from harness.results.reasons import EXTERNAL_ONLY
from harness.results.verdict import Validity
from reports.html.page import draw
from tests.support.changed_requests import write_held_requests
from tests.support.findings import findings_of
from tests.support.synthetic_store import make_verdict, record, write_store

WIDTHS = (1280, 390)
HOSTILE = "<b onclick=alert(1)>\u202e\x00" + "k" * 100_000
Opener = Callable[..., Page]


@pytest.fixture
def opened(open_file: Opener, tmp_path: Path) -> Opener:
    """Return a function that opens the report of a verdict."""

    def open_report(checked_verdict: Any, width: int = 1280, **options: Any) -> Page:
        folder = write_store(tmp_path / "run", checked_verdict)
        write_held_requests(folder, "shop-2", "x" * 249)
        (folder / "report.html").write_text(draw(folder, checked_verdict), encoding="utf-8")
        return open_file(folder / "report.html", width, **options)

    return open_report


def on_paper(page: Page) -> Page:
    """Return the page as it is printed: with the static drawing in the place of the time axis."""
    page.emulate_media(media="print")
    return page


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("valid", Validity)
def test_the_verdict_and_its_reason_are_visible_first(opened: Opener, valid: Validity, width: int) -> None:
    page = opened(make_verdict(valid), width)
    expect(page.get_by_role("heading", level=1)).to_have_text(f"{'✓?✕'[valid]} {valid.name.capitalize()}")
    expect(page.get_by_role("heading", level=1)).to_be_in_viewport()
    expect(page.locator(".reason")).to_be_in_viewport()
    expect(page.locator(".reason")).to_have_text(make_verdict(valid).summary)
    expect(page.locator("header")).to_contain_text("Not exercised: kill-group-coordinator")
    expect(page.locator("header").get_by_text("Faults: ")).to_have_count(int(valid is Validity.UNKNOWN))


@pytest.mark.parametrize("valid", Validity)
def test_no_part_of_the_page_is_wider_than_a_phone(opened: Opener, valid: Validity) -> None:
    page = opened(make_verdict(valid), 390)
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") == 390


@pytest.mark.parametrize("width", [390, 800, 1300])
def test_a_long_list_of_checks_not_made_does_not_widen_the_page(opened: Opener, width: int) -> None:
    checked_verdict = make_verdict(Validity.VALID)
    page = opened(
        structs.replace(
            checked_verdict, not_checked_because=dict.fromkeys(registry.anomalies(), EXTERNAL_ONLY)
        ),
        width,
    )
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_hostile_values_run_no_script_and_do_not_widen_the_page(opened: Opener) -> None:
    findings = findings_of(1, [{"record": record(1, topic=HOSTILE, value=HOSTILE), HOSTILE: HOSTILE}])
    checked_verdict = make_verdict(
        Validity.INVALID, name=HOSTILE, summary=HOSTILE, anomalies={HOSTILE: findings}
    )
    page = opened(checked_verdict, 390)
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert page.locator("main b").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") == 390


@pytest.mark.parametrize("width", WIDTHS)
def test_a_finding_leads_to_its_line_in_the_journal(opened: Opener, width: int) -> None:
    page = opened(make_verdict(Validity.INVALID), width)
    page.locator("#reprocessed-input-1").get_by_role("link", name="line 119").first.click()
    line = page.locator(":target")
    expect(line).to_be_in_viewport()
    expect(line).to_contain_text('"op": 60')
    expect(line).to_contain_text('"type": "invoke"')


def test_the_journal_file_opens_from_its_excerpt(opened: Opener, tmp_path: Path) -> None:
    page = opened(make_verdict(Validity.INVALID))
    links = page.locator("#journals a.file")
    hrefs = [links.nth(n).evaluate("link => link.href") for n in range(links.count())]
    assert hrefs == [(tmp_path / "run" / "journals" / f"shop-2.{n}.jsonl").as_uri() for n in (0, 1)]


@pytest.mark.parametrize("width", WIDTHS)
def test_no_text_of_a_drawing_is_cut_off(opened: Opener, width: int) -> None:
    page = on_paper(opened(make_verdict(Validity.INVALID), width))
    outside = page.evaluate(
        """() => [...document.querySelectorAll('svg')].filter(svg => svg.checkVisibility()).flatMap(svg => {
            const frame = svg.getBoundingClientRect();
            return [...svg.querySelectorAll('text')].filter(text => {
                const box = text.getBoundingClientRect();
                return box.left < frame.left - 1 || box.right > frame.right + 1;
            }).map(text => text.textContent);
        })"""
    )
    assert outside == []


@pytest.mark.parametrize("width", WIDTHS)
def test_one_size_of_each_drawing_is_visible_and_has_a_name(opened: Opener, width: int) -> None:
    page = on_paper(opened(make_verdict(Validity.INVALID), width))
    assert page.get_by_role("img", name="The run over time").count() == 1
    box = page.get_by_role("img", name="The run over time").bounding_box()
    assert box is not None
    assert box["height"] > 500


@pytest.mark.parametrize("width", WIDTHS)
def test_a_request_that_a_rule_changed_has_a_mark_for_each_step(opened: Opener, width: int) -> None:
    page = on_paper(opened(make_verdict(Validity.VALID), width))
    marks = page.locator("svg:visible rect.message")
    assert marks.count() == 6
    assert marks.nth(1).locator("title").text_content() == (
        "EndTxn(abort) 41 of shop-2: at 4.414 s delivered to broker 2 when AddOffsetsToTxn request 16 was seen"
    )
    expect(page.locator("#changed-requests")).to_be_visible()


def test_the_drawing_has_its_numbers_in_a_table(opened: Opener) -> None:
    page = opened(make_verdict(Validity.VALID))
    page.get_by_text("The numbers behind the drawing").click()
    expect(page.locator("table.numbers")).to_be_visible()
    assert page.locator("table.numbers tbody tr").count() >= 75


def test_the_command_that_repeats_the_run_is_copied(opened: Opener) -> None:
    page = opened(make_verdict(Validity.VALID), permissions=("clipboard-read", "clipboard-write"))
    page.locator("button[data-copies=command]").click()
    expect(page.locator("#copied-command")).to_have_text("copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == "fencepost run --workload shop --time-limit 60 --seed 42"


def test_the_page_can_be_read_without_scripts(opened: Opener) -> None:
    page = opened(make_verdict(Validity.INVALID), java_script_enabled=False)
    expect(page.locator("#command")).to_be_visible()
    expect(page.get_by_role("button")).to_have_count(0)


def test_the_keyboard_reaches_links_and_details(opened: Opener) -> None:
    page = opened(make_verdict(Validity.INVALID))
    reached = set()
    for _ in range(80):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.tagName"))
    assert {"A", "SUMMARY", "BUTTON", "PRE"} <= reached


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(opened: Opener, scheme: str) -> None:
    """WCAG AA: the contrast is 4.5 to 1, for each pair of colours of a text and its background."""
    page = opened(make_verdict(Validity.INVALID), color_scheme=scheme)
    style = "getComputedStyle(document.documentElement)"

    def luminance(name: str) -> float:
        value = page.evaluate(f"{style}.getPropertyValue('--{name}').trim()")
        channels = [int(value[start : start + 2], 16) / 255 for start in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    pairs = [
        (ink, background) for ink in ("ink", "soft", "link") for background in ("paper", "raised", "target")
    ]
    pairs += [("verdict-ink", word) for word in ("valid", "invalid", "unknown")]
    pairs += [(ink, "paper") for ink in ("band", "info", "ok")]
    for ink, background in pairs:
        low, high = sorted((luminance(ink), luminance(background)))
        assert (high + 0.05) / (low + 0.05) >= 4.5, (ink, background)
