"""The time axis of a report in a browser: brush, zoom, link, search, keyboard, and no script from recorded texts."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from harness.results.verdict import Validity, Verdict
from reports.html.page import draw
from tests.support.changed_requests import write_held_requests
from tests.support.findings import findings_of
from tests.support.synthetic_store import FAULTS, make_verdict, operation, record, write_store, write_table

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
Opener = Callable[..., Page]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an invalid run with its report: faults at 12.1, 31 and 45.2 s, and findings around the second."""
    return write_run(tmp_path_factory.mktemp("run"), make_verdict(Validity.INVALID))


def write_run(path: Path, verdict: Verdict) -> Path:
    write_store(path, verdict)
    write_held_requests(path, "shop-2", "x" * 249)
    owned = [
        {"journal": f"shop-{n}.0", "group": "shop", "time_ns": n * 10**9, "gained": True, "tp": n}
        for n in (1, 2)
    ]
    write_table(path, "assignments", owned)
    log = "2026-11-21T10:00:14.500Z WARN Node 2 disconnected\n2026-11-21T10:00:33.000Z ERROR epoch is old\n"
    (path / "brokers" / "1" / "server.log").write_text(log)
    log = json.dumps({"level": "ERROR", "timestamp": "2026-11-21T10:00:40.500Z", "message": HOSTILE})
    (path / "workers").mkdir()
    (path / "workers" / "bill <img src=x>.log").write_text(log + "\n")
    (path / "report.html").write_text(draw(path, verdict), encoding="utf-8")
    return path


@pytest.fixture
def opened(open_file: Opener, folder: Path) -> Opener:
    """Return a function that opens the report, at a hash of the address."""

    def open_report(at: str = "", width: int = 1280, **options: Any) -> Page:
        page = open_file(folder / "report.html", width, **options)
        if at:
            page.evaluate("hash => { location.hash = hash }", at)
        return page

    return open_report


def plot(page: Page) -> Locator:
    return page.locator("#axis-plot")


def shown_time(page: Page) -> tuple[float, float]:
    """Return the shown time, which the page says in words."""
    expect(page.locator("#view")).to_be_visible()
    begin, _, end, _ = page.locator("#view").inner_text().split()
    return float(begin), float(end)


def drag(page: Page, begin: float, end: float) -> None:
    """Drag over the first pane, between two shares of its width."""
    pane = page.locator(".axis-pane .u-over").first
    pane.scroll_into_view_if_needed()
    box = pane.bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * begin, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * (begin + end) / 2, y)
    page.mouse.move(box["x"] + box["width"] * end, y)
    page.mouse.up()


def test_a_brush_shows_a_part_and_filters_faults_findings_requests_and_log_lines(opened: Opener) -> None:
    page = opened()
    expect(page.locator(".filter-note:visible")).to_have_count(0)
    drag(page, 0.1, 0.3)  # of 0 to 75 s
    begin, end = shown_time(page)
    assert begin == pytest.approx(7.5, abs=0.5) and end == pytest.approx(22.5, abs=0.5)
    expect(page.locator(".fault-table tbody tr:visible")).to_have_count(1)
    expect(page.locator(".fault-table tbody tr:visible")).to_contain_text("kill-broker")
    expect(page.locator(".filter-note", has_text="1 of 3 faults shown")).to_be_visible()
    expect(page.locator(".filter-note", has_text="0 of 3 findings shown")).to_be_visible()
    expect(page.locator(".filter-note", has_text="0 of 2 requests shown")).to_be_visible()
    expect(page.locator(".filter-note", has_text="1 of 3 log lines shown")).to_be_visible()
    expect(page.locator(".logs tbody tr:visible")).to_contain_text("Node 2 disconnected")
    page.locator(".filter-note", has_text="faults").get_by_role("button", name="Show all").click()
    expect(page.locator(".fault-table tbody tr:visible")).to_have_count(3)
    expect(page.locator(".filter-note:visible")).to_have_count(0)


def test_the_axis_stays_in_place_when_findings_above_it_are_hidden(opened: Opener) -> None:
    page = opened()
    page.locator(".axis-pane").first.scroll_into_view_if_needed()
    before = plot(page).bounding_box()
    drag(page, 0.1, 0.3)
    expect(page.locator("#reprocessed-input-1")).to_be_hidden()
    after = plot(page).bounding_box()
    assert before and after
    assert after["y"] == pytest.approx(before["y"], abs=2)


@pytest.mark.parametrize("width", [1280, 390])
def test_a_link_at_a_fault_and_at_a_finding_zooms_to_it(opened: Opener, width: int) -> None:
    page = opened(width=width)
    page.locator("#fault-1 .to-axis").click()
    begin, end = shown_time(page)
    assert begin < FAULTS[0].start_s and (FAULTS[0].end_s or 0) < end < 25
    expect(plot(page)).to_be_in_viewport()
    page.locator("#show-all").click()
    page.locator("#reprocessed-input-1 .to-axis").click()
    begin, end = shown_time(page)
    assert 25 < begin < 30.2 and 38.7 < end < 45
    expect(page.locator("#reprocessed-input-1")).to_be_visible()


def test_a_click_on_the_bar_of_a_fault_zooms_to_it_and_leads_to_its_row(opened: Opener) -> None:
    page = opened()
    lanes = page.locator(".axis-lanes canvas").first
    lanes.scroll_into_view_if_needed()
    box = lanes.bounding_box()
    assert box is not None
    x = box["x"] + 165 + (box["width"] - 177) * 33 / 75  # the second fault, at 33 s
    page.mouse.move(x, box["y"] + 26)
    expect(page.locator(".axis-tip")).to_contain_text(
        "2 pause-worker: worker shop-2.0 was paused and replaced"
    )
    page.mouse.click(x, box["y"] + 26)
    begin, end = shown_time(page)
    assert 28 < begin < 31.0 and 38.5 < end < 41
    page.locator(".axis-tip a").click()
    expect(page.locator("#fault-2")).to_be_in_viewport()
    assert page.evaluate("location.hash") == "#fault-2"
    assert shown_time(page) == (begin, end)


def test_hovering_shows_the_value_and_the_name(opened: Opener) -> None:
    page = opened()
    pane = page.locator(".axis-pane").first
    pane.scroll_into_view_if_needed()
    pane.locator(".u-over").hover()
    expect(page.locator(".axis-tip")).to_contain_text("Committed transactions per second: ")
    expect(pane.locator(".value")).to_have_text(re.compile(r"^\d+$"))
    pane.locator(".pane-name").hover()
    page.mouse.move(5, 5)
    expect(page.locator(".axis-tip")).to_be_hidden()


def test_the_address_keeps_the_shown_time(opened: Opener) -> None:
    page = opened("t=12.3-14.5")
    assert shown_time(page) == (12.3, 14.5)
    plot(page).focus()
    page.keyboard.press("ArrowRight")
    begin, end = shown_time(page)
    expect(page).to_have_url(re.compile(rf"#t={begin:.2f}\d-{end:.2f}\d$"))
    page.keyboard.press("Escape")
    expect(page).to_have_url(re.compile(r"report\.html$"))


def test_a_page_that_is_opened_at_a_time_shows_it(opened: Opener, folder: Path, browser: Any) -> None:
    opened()
    page = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True).new_page()
    page.goto(f"{(folder / 'report.html').as_uri()}#t=30.5-39")
    assert shown_time(page) == (30.5, 39.0)
    expect(plot(page)).to_be_in_viewport()
    page.context.close()


def test_an_address_with_wrong_times_shows_all(opened: Opener) -> None:
    page = opened()
    for wrong in ("t=9-3", "t=x", "t=1e400-2", "t=", "t=-5-9"):
        page.evaluate(
            "hash => new Promise(done => { addEventListener('hashchange', done, {once: true}); location.hash = hash })",
            wrong,
        )
        expect(page.locator("#shown-time")).to_be_hidden()


def test_the_keyboard_moves_zooms_and_resets(opened: Opener) -> None:
    page = opened("t=20-40")
    plot(page).focus()
    page.keyboard.press("+")
    assert shown_time(page) == (25.0, 35.0)
    page.keyboard.press("ArrowLeft")
    assert shown_time(page) == (23.0, 33.0)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert shown_time(page) == (27.0, 37.0)
    page.keyboard.press("-")
    assert shown_time(page) == (22.0, 42.0)
    page.keyboard.press("Escape")
    expect(page.locator("#shown-time")).to_be_hidden()


def test_a_double_click_shows_all(opened: Opener) -> None:
    page = opened("t=12.3-14.5")
    page.locator(".axis-pane .u-over").first.dblclick()
    expect(page.locator("#shown-time")).to_be_hidden()


def search(page: Page, text: str) -> None:
    page.get_by_label("Search", exact=True).fill(text)


@pytest.mark.parametrize("text", ["invoices/3@417", "invoices/3 offset 417"])
def test_a_record_is_found_in_findings_and_in_the_lane_of_its_anomaly(opened: Opener, text: str) -> None:
    page = opened()
    search(page, text)
    expect(page.locator("article.match[data-from]")).to_have_count(3)
    expect(page.locator(".lane-name.match")).to_have_text("reprocessed-input")
    expect(page.locator("#not-here")).to_be_hidden()


def test_a_search_steps_through_its_matches_also_those_outside_the_shown_time(opened: Opener) -> None:
    page = opened("t=50-60")
    expect(page.locator("#reprocessed-input-1")).to_be_hidden()
    search(page, "4009")  # a producer id
    expect(page.locator("#matches")).to_have_text("3 matches")
    page.keyboard.press("Enter")
    expect(page.locator("#matches")).to_have_text("1 of 3")
    expect(page.locator("#reprocessed-input-1.match.current")).to_be_in_viewport()
    page.locator("#next").click()
    expect(page.locator("#reprocessed-input-2.match.current")).to_be_in_viewport()
    page.locator("#previous").click()
    expect(page.locator("#reprocessed-input-1.match.current")).to_be_in_viewport()


def test_enter_searches_what_is_in_the_box_now(opened: Opener) -> None:
    page = opened()
    search(page, "nonsense")
    expect(page.locator("#matches")).to_have_text("no match")
    page.locator("#search").fill("4009")
    page.keyboard.press("Enter")
    expect(page.locator("#matches")).to_have_text("1 of 3")


def test_log_lines_are_readable_on_a_narrow_page(opened: Opener) -> None:
    page = opened()
    page.set_viewport_size({"width": 400, "height": 800})
    cell = page.locator(".logs td.nowrap").first.bounding_box()
    assert cell is not None and cell["width"] > 200 and cell["height"] < 60


def test_a_transactional_id_is_found_in_its_lane(opened: Opener) -> None:
    page = opened()
    search(page, "payments-1")
    expect(page.locator(".lane-name.match", has_text="payments-1")).to_have_count(1)
    search(page, "payments")
    expect(page.locator(".lane-name.match", has_text="payments-1")).to_have_count(1)
    search(page, "")
    expect(page.locator(".match")).to_have_count(0)


def test_words_of_cells_and_items_that_touch_are_found(opened: Opener) -> None:
    """In the text of the row, the cell before it ends where the searched one begins."""
    page = opened()
    search(page, "broker 1 from its peers")
    expect(page.locator("tr.match#fault-3")).to_have_count(1)
    search(page, "an error that nobody foresaw")
    expect(page.locator("li.match")).to_have_count(1)


def test_a_number_that_is_not_there_offers_no_command(opened: Opener) -> None:
    page = opened()
    search(page, "987654321")
    expect(page.locator("#not-here")).to_be_visible()
    expect(page.locator("#trace-line")).to_be_hidden()


def test_part_of_a_name_or_of_a_number_does_not_match(opened: Opener) -> None:
    page = opened()
    for text in ("invoices/3@41", "invoices/3@4170", "payment", "nvoices/3@417"):
        search(page, text)
        expect(page.locator("#matches")).to_have_text("no match")


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("invoices/2@33", "--record invoices/2@33"),
        ("invoices/2 offset 33", "--record invoices/2@33"),
        ("billing-7", "--id billing-7"),
        ("it's $(reboot)", "--id 'it'\\''s $(reboot)'"),
    ],
)
def test_the_trace_command_is_offered_for_what_is_not_on_the_page(
    opened: Opener, folder: Path, text: str, arguments: str
) -> None:
    page = opened(permissions=("clipboard-read", "clipboard-write"))
    search(page, text)
    expect(page.locator("#trace-command")).to_have_text(f"fencepost trace {folder} {arguments}")
    page.locator("#not-here").get_by_role("button", name="Copy").click()
    expect(page.locator("#copied-trace")).to_have_text("copied")
    assert page.evaluate("navigator.clipboard.readText()") == f"fencepost trace {folder} {arguments}"


def test_hostile_keys_values_and_log_lines_run_no_script(open_file: Opener, tmp_path: Path) -> None:
    """The fixture `open_file` fails if a dialog opens, a request is sent or the policy reports a violation."""
    worker = operation(1, HOSTILE, name=HOSTILE, transactional_id=HOSTILE, error=HOSTILE)
    example = {
        "record": record(1, topic=HOSTILE, key=HOSTILE, value=HOSTILE),
        "operation": worker,
        HOSTILE: HOSTILE,
    }
    verdict = make_verdict(Validity.INVALID, anomalies={HOSTILE: findings_of(1, [example])})
    page = open_file(write_run(tmp_path, verdict) / "report.html")
    search(page, HOSTILE)
    expect(page.locator("#matches")).not_to_have_text("no match")
    page.keyboard.press("Enter")
    search(page, f"{HOSTILE} elsewhere")
    expect(page.locator("#trace-command")).to_contain_text("<script>alert(1)</script>")
    for lane in page.locator(".axis-lanes canvas").all():
        lane.scroll_into_view_if_needed()
        box = lane.bounding_box()
        assert box is not None
        for share in range(20):
            page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + box["height"] * share / 20)
    assert page.locator("main img").count() == 0
    assert page.locator("script").count() == 4


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_the_axis_fits_the_page_and_draws_in_the_colours_of_the_scheme(
    opened: Opener, width: int, scheme: str
) -> None:
    page = opened(width=width, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    drawn = "canvas => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some(byte => byte)"
    canvases = page.locator("#axis-plot canvas").all()
    assert len(canvases) >= 6 and all(canvas.evaluate(drawn) for canvas in canvases)
    page.set_viewport_size({"width": 700, "height": 900})
    expect(page.locator(".axis-ruler")).to_have_js_property("clientWidth", 668)
    assert page.evaluate("document.documentElement.scrollWidth") == 700


def test_without_scripts_the_page_has_the_static_drawing_and_every_row(opened: Opener) -> None:
    page = opened(java_script_enabled=False)
    expect(page.get_by_role("img", name="The run over time")).to_be_visible()
    expect(page.locator("#axis")).to_be_hidden()
    expect(page.locator("#bar")).to_be_hidden()
    expect(page.locator(".to-axis:visible")).to_have_count(0)
    expect(page.locator(".fault-table tbody tr:visible")).to_have_count(3)
    expect(page.locator(".logs tbody tr:visible")).to_have_count(3)


def test_print_shows_the_static_drawing_and_every_row(opened: Opener) -> None:
    page = opened("t=12.3-14.5")
    expect(page.locator(".fault-table tbody tr:visible")).to_have_count(1)
    page.emulate_media(media="print")
    expect(page.get_by_role("img", name="The run over time")).to_be_visible()
    expect(page.locator("#axis")).to_be_hidden()
    expect(page.locator(".fault-table tbody tr:visible")).to_have_count(3)
