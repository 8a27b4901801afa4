"""The page of an external history."""

import re
from html import unescape
from typing import Any

import pytest

from harness.results.reasons import Reason, ReasonCode
from harness.results.verdict import AnomalyFindings, IndeterminateOperations, Validity, Verdict
from reports.html.history import draw
from tests.support.findings import findings_of
from tests.support.html_page import HOSTILE, Page

SEND = {
    "op": 6, "process": 0, "f": "send", "outcome": "ok", "invoked": 5, "invoke_ns": 2_000_000, "complete_ns": 3_000_000
}  # fmt: skip
POLL = SEND | {
    "op": 12,
    "process": 3,
    "f": "poll",
    "invoked": 11,
    "invoke_ns": 9_000_000,
    "complete_ns": 9_500_000,
}
LOST = {
    "record": {"key": "x", "value": 3, "offset": 12},
    "operation": SEND,
    "read_beyond": POLL | {"key": "x", "value": 4, "offset": 14},
}
CYCLE = {
    "operations": 2,
    "cycle": [
        {"kind": "wr", "from": SEND, "to": POLL, "record": {"key": "x", "value": 1}},
        {"kind": "wr", "from": POLL, "to": SEND, "record": {"key": "y", "value": 2}},
    ],
    "steps": ['T12 read 1 from "x", which T6 wrote', 'T6 read 2 from "y", which T12 wrote'],
}


def verdict_of(valid: Validity = Validity.INVALID, **more: Any) -> Verdict:
    values: dict[str, Any] = {"stats": {"ops": 30, "passed_over": 0}, "checked": ["lost-write", "G0"]}
    anomalies: dict[str, AnomalyFindings] = more.pop("anomalies", {})
    return Verdict("night/h.edn", "h", None, valid.json, "what was found", anomalies, **(values | more))


def html_of(verdict: Verdict) -> str:
    return draw(verdict, "fencepost check night/h.edn --out page.html")


def page_of(verdict: Verdict) -> Page:
    return Page(html_of(verdict))


def rows_of(verdict: Verdict) -> list[list[str]]:
    """Return the cells of the tables of operations."""
    rows = re.findall(r'<tr><th scope="row">(T\d.*?)</tr>', html_of(verdict))
    return [
        [unescape(re.sub("<[^>]*>", "", cell)) for cell in re.split(r"</t[hd]><td[^>]*>", row)]
        for row in rows
    ]


def test_an_example_has_its_records_and_its_operations_in_order_of_time() -> None:
    verdict = verdict_of(anomalies={"lost-write": findings_of(2, [LOST], meaning="It was lost.")})
    page = page_of(verdict)
    assert "Invalid" in page.text and "what was found" in page.text and "It was lost." in page.text
    assert "record" in page.text and '"x" 3 @ 12' in page.text
    assert rows_of(verdict) == [
        ["T6", "0", "send", "line 5, 0.002000 s", "line 6, 0.003000 s", "ok", ""],
        ["T12", "3", "poll", "line 11, 0.009000 s", "line 12, 0.009500 s", "ok", 'read beyond "x" 4 @ 14'],
    ]
    assert page.text.count("T6 from 0.0 s to 0.0 s · process 0, send, ok") == 2  # in both widths
    assert "1 of 2 is shown." in page.text
    assert "Checked, and not found:\nG0\n" in page.text
    assert "fencepost check night/h.edn --out page.html" in page.text


def test_a_cycle_is_a_list_of_steps_and_each_operation_has_one_row() -> None:
    verdict = verdict_of(anomalies={"G1c": findings_of(1, [CYCLE])})
    page = page_of(verdict)
    assert "A cycle of 2 steps" in page.text
    for step in CYCLE["steps"]:
        assert step in page.text
    assert [row[0] for row in rows_of(verdict)] == ["T6", "T12"]
    assert "Part in the finding" not in page.text


def test_an_operation_without_completion_is_open_and_one_without_times_is_in_the_table_alone() -> None:
    never = SEND | {"op": 5, "outcome": "open", "complete_ns": None}
    timeless = {name: value for name, value in POLL.items() if not name.endswith("_ns")}
    both = verdict_of(anomalies={"phantom": findings_of(1, [{"operations": [timeless, never]}])})
    assert rows_of(both) == [
        ["T5", "0", "send", "line 5, 0.002000 s", "never", "open"],
        ["T12", "3", "poll", "line 11", "line 12", "ok"],
    ]
    assert any("no-end" in str(kind) for kind in page_of(both).all("class"))
    one = verdict_of(anomalies={"phantom": findings_of(1, [{"operations": [timeless]}])})
    assert rows_of(one) == [["T12", "3", "poll", "line 11", "line 12", "ok"]]
    assert "svg" not in [tag for tag, _ in page_of(one).tags]


def test_the_times_of_a_drawing_count_from_its_first_invocation() -> None:
    epoch_ns = 1_764_000_000_000_000_000
    late = SEND | {"invoke_ns": epoch_ns, "complete_ns": epoch_ns + 2_000_000_000}
    page = page_of(verdict_of(anomalies={"phantom": findings_of(1, [{"operation": late}])}))
    assert "T6 from 0.0 s to 2.0 s" in page.text


def test_allowed_anomalies_are_apart_and_name_who_permits_them() -> None:
    skip = findings_of(1, [{"operations": [POLL]}], allowed=True, allowed_by="subscribe")
    page = page_of(verdict_of(Validity.VALID, anomalies={"poll-skip": skip}))
    assert "Valid" in page.text and "Permitted by subscribe." in page.text
    assert {"allowed", "checked", "numbers", "repeat"} <= set(page.all("id"))
    assert not {"anomalies", "open"} & set(page.all("id"))


def test_an_unknown_history_says_first_why() -> None:
    reason = Reason(ReasonCode.NOTHING_READ, "nothing was read", remedy="record what clients polled: `docs`")
    page = page_of(
        verdict_of(
            Validity.UNKNOWN,
            unknown_because=[reason],
            not_checked_because={"G0": Reason(ReasonCode.EXTERNAL_HISTORY, "it names no markers")},
            stats={"ops": 3, "passed_over": 3000},
        )
    )
    for part in (
        "Why it is unknown", "nothing was read", "record what clients polled: docs", "fencepost explain nothing-read",
        "3,000 operations: f is none of txn", "need a run under Fencepost", "it names no markers: G0",
    ):  # fmt: skip
        assert part in page.text
    assert page.all("id").index("open") < page.all("id").index("checked")


def test_recorded_text_is_escaped_and_the_policy_permits_only_the_style_of_the_page() -> None:
    part = SEND | {"process": HOSTILE, "f": HOSTILE, "outcome": HOSTILE, "key": HOSTILE, "value": [HOSTILE]}
    example = {"record": {"key": HOSTILE, "value": HOSTILE * 10_000}, "reader": part, HOSTILE: HOSTILE}
    cycle = {"steps": [HOSTILE, {HOSTILE: 1}], "cycle": [{"kind": HOSTILE, "from": part, "to": part}]}
    verdict = verdict_of(
        anomalies={HOSTILE: findings_of(1, [example], because=HOSTILE), "G0": findings_of(1, [cycle])},
        unknown_because=[Reason(ReasonCode.NOTHING_READ, HOSTILE, HOSTILE, HOSTILE)],
        not_checked={HOSTILE: Reason(ReasonCode.EXTERNAL_HISTORY, HOSTILE)},
        unsettled=IndeterminateOperations(1, []),
    )
    page = Page(draw(verdict, HOSTILE))
    names = [name for name, _ in page.tags]
    assert not {"script", "img"} & set(names)
    assert names.count("style") == 1 and names.count("link") == 1  # the link is the empty icon
    assert "49" not in page.text.split("Check it again")[1]
    assert "default-src 'none'" in page.all("content")[0] and "script-src 'none'" in page.all("content")[0]
    assert len(draw(verdict, HOSTILE)) < 200_000


@pytest.mark.parametrize("valid", Validity)
def test_links_lead_to_anchors_that_exist_once(valid: Validity) -> None:
    anomalies = {"lost-write": findings_of(40, [LOST] * 12), "G1c": findings_of(1, [CYCLE], allowed=True)}
    page = page_of(verdict_of(valid, anomalies=anomalies if valid is Validity.INVALID else {}))
    idents = page.all("id")
    assert len(idents) == len(set(idents))
    assert {link.removeprefix("#") for link in page.all("href") if link.startswith("#")} <= set(idents)
    if valid is Validity.INVALID:
        assert "9 more examples" in page.text and "10 of 40 are shown." in page.text
