import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from checkers.needs import NEEDS
from harness.results.example import Operation
from harness.results.membership_changes import MembershipChange
from harness.results.reasons import EXTERNAL_ONLY, Reason, ReasonCode
from harness.results.verdict import FaultReport, IndeterminateOperations, Validity, Verdict
from reports.html.page import _moment, draw
from tests.support.findings import findings_of
from tests.support.synthetic_store import (
    FAULTS,
    REPROCESSED_INPUT,
    make_verdict,
    operation,
    record,
    write_journal,
    write_store,
)

HOSTILE = "</style></script><script>alert(1)</script><img src=x onerror=alert(1)>\"'\x00\x1b\u202e{{ 7 * 7 }}"


class Page(HTMLParser):
    """What a browser would see: tags, attributes, anchors, links and text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, name: str) -> list[str]:
        return [value for _, attributes in self.tags if (value := attributes.get(name)) is not None]


def hostile_verdict() -> Verdict:
    worker = operation(
        1, HOSTILE, name=HOSTILE, stage=HOSTILE, transactional_id=HOSTILE, error=HOSTILE * 10_000
    )
    example = {
        "record": record(1, topic=HOSTILE, value="k" * 1_000_000),
        "operation": worker,
        HOSTILE: HOSTILE,
    }
    return make_verdict(
        Validity.INVALID,
        name=HOSTILE,
        history=HOSTILE,
        summary=HOSTILE,
        anomalies={
            HOSTILE: findings_of(1, [example]),
            "duplicate": findings_of(1, [example], because=HOSTILE),
        },
        not_checked={HOSTILE: Reason(ReasonCode.INPUTS_LEFT, HOSTILE)},
        not_exercised={HOSTILE: HOSTILE},
        unknown_because=[Reason(ReasonCode.INPUTS_LEFT, HOSTILE, HOSTILE, HOSTILE)],
        coverage={HOSTILE: 1},
        stats={HOSTILE: HOSTILE},
        faults=[FaultReport(HOSTILE, HOSTILE, 1.0, None, False, HOSTILE, HOSTILE)],
        churn=[MembershipChange(HOSTILE, HOSTILE, HOSTILE, 1.0, 2.0, (HOSTILE,), (HOSTILE,), HOSTILE)],
    )


def test_workers_that_joined_and_left_stand_beside_the_faults_with_what_moved(tmp_path: Path) -> None:
    churn = [
        MembershipChange("shop", "shop-4.0", None, 5.0, 6.0, ("purchases/3",)),
        MembershipChange("shop", None, "shop-2.0", 9.0, 10.0, why="it was held"),
    ]
    judged = make_verdict(Validity.VALID, churn=churn)
    text = Page(draw(write_store(tmp_path, judged), judged)).text
    assert "Workers that joined and left" in text
    assert "purchases/3" in text and "none (it was held)" in text
    plain = make_verdict(Validity.VALID)
    assert "Workers that joined" not in Page(draw(write_store(tmp_path / "plain", plain), plain)).text


@pytest.mark.parametrize("valid", Validity)
def test_a_run_is_drawn_whole(tmp_path: Path, valid: Validity) -> None:
    judged = make_verdict(valid)
    html = draw(write_store(tmp_path, judged), judged)
    page = Page(html)
    assert judged.summary in page.text
    assert "Missing from the run" not in page.text
    for fault in FAULTS:
        assert fault.evidence in page.text
    assert "fencepost run --workload shop --time-limit 60 --seed 42" in page.text
    assert len(html) < 400_000


@pytest.mark.parametrize("valid", Validity)
def test_a_folder_with_nothing_in_it_is_drawn_all_the_same(tmp_path: Path, valid: Validity) -> None:
    judged = make_verdict(valid)
    page = Page(draw(tmp_path, judged))
    assert judged.summary in page.text
    for name in ("run.toml", "metadata.json", "history/ops.parquet", "the folder journals"):
        assert f"{name} does not exist" in page.text
    assert "fencepost replay store/shop/20261121T100000Z" in page.text


def test_a_verdict_that_says_nothing_is_drawn(tmp_path: Path) -> None:
    assert "Unknown" in Page(draw(tmp_path, Verdict("h", "n", None, Validity.UNKNOWN, ""))).text


@pytest.mark.parametrize(
    "name", ["run.toml", "metadata.json", "history/ops.parquet", "history/sends.parquet"]
)
def test_a_damaged_file_is_named_and_the_rest_is_drawn(tmp_path: Path, name: str) -> None:
    judged = make_verdict(Validity.VALID)
    folder = write_store(tmp_path, judged)
    (folder / name).write_bytes(b"\xff\x00{")
    page = Page(draw(folder, judged))
    assert "Missing from the run" in page.text
    assert judged.summary in page.text


def test_every_link_within_the_page_has_its_anchor_and_no_anchor_stands_twice(tmp_path: Path) -> None:
    judged = make_verdict(Validity.INVALID)
    page = Page(draw(write_store(tmp_path, judged), judged))
    anchors = page.all("id")
    assert len(anchors) == len(set(anchors))
    inner = [link[1:] for link in page.all("href") if link.startswith("#")]
    assert set(inner) <= set(anchors)
    assert "journal-1-line-119" in inner  # of shop-2.0, operation 60


def test_nothing_is_loaded_from_elsewhere(tmp_path: Path) -> None:
    judged = make_verdict(Validity.INVALID)
    page = Page(draw(write_store(tmp_path, judged), judged))
    assert page.all("src") == []
    assert not any(re.match(r"[a-z]+:|//", link) for link in page.all("href") if link != "data:,")
    assert "url(" not in page.text


def test_the_policy_permits_this_style_and_this_script_and_nothing_else(tmp_path: Path) -> None:
    html = draw(tmp_path, make_verdict(Validity.VALID))
    (policy,) = [a["content"] for t, a in Page(html).tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    for tag in ("style", "script"):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        assert base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in policy
    assert not Page(html).all("style")
    assert not any(name.startswith("on") for _, attributes in Page(html).tags for name in attributes)


def test_hostile_values_are_shown_and_do_nothing(tmp_path: Path) -> None:
    judged = hostile_verdict()
    folder = write_store(tmp_path, judged)
    html = draw(folder, judged)
    page = Page(html)
    names = [tag for tag, _ in page.tags]
    assert (names.count("script"), names.count("style"), names.count("img")) == (1, 1, 0)
    assert not any(character in html for character in "\x00\x1b\u202e")
    assert "<script>alert(1)</script>" in page.text
    assert "{{ 7 * 7 }}" in page.text
    assert len(html) < 300_000


@pytest.mark.parametrize("name", ["../../secret", "/etc/passwd", "..", "a\x00b", "x" * 5000])
def test_a_journal_outside_the_folder_is_never_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret.jsonl").write_text("the secret\n")
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    found = {"lost-commit": findings_of(1, [{"operation": operation(1, name, line=1)}])}
    assert "the secret" not in draw(folder, make_verdict(Validity.INVALID, anomalies=found))


def test_a_journal_line_of_a_megabyte_is_shortened_and_a_line_that_is_gone_is_said(tmp_path: Path) -> None:
    write_journal(tmp_path, "shop-2.0", 2)
    with (tmp_path / "journals" / "shop-2.0.jsonl").open("a") as file:
        file.write('{"k":"' + "x" * 1_000_000 + '"}\n{"after":1}\n')
    examples: list[dict[str, Any]] = [
        {"operation": operation(1, line=5, end_line=6)},
        {"operation": operation(2, line=99)},
    ]
    html = draw(tmp_path, make_verdict(Validity.INVALID, anomalies={"lost-commit": findings_of(2, examples)}))
    assert '{"after":1}' in Page(html).text
    assert "line 99 (not in the folder)" in " ".join(Page(html).text.split())
    assert len(html) < 200_000


@pytest.mark.parametrize(("length", "whole"), [(7_000, True), (9_000, False)])
def test_a_line_that_a_finding_names_is_whole_or_its_cut_is_marked(
    tmp_path: Path, length: int, whole: bool
) -> None:
    write_journal(tmp_path, "shop-2.0", 2)
    with (tmp_path / "journals" / "shop-2.0.jsonl").open("a") as file:
        file.write('{"k":"' + "x" * length + '"}\n')
    found = {"lost-commit": findings_of(1, [{"operation": operation(1, line=5)}])}
    text = Page(draw(tmp_path, make_verdict(Validity.INVALID, anomalies=found))).text
    assert ("x" * length in text) is whole
    assert ("characters left out" in text) is not whole


def test_bad_findings_stand_apart_from_allowed_ones(tmp_path: Path) -> None:
    anomalies = {
        "G0": findings_of(1, [{}], allowed=True),
        "reprocessed-input": findings_of(1, [REPROCESSED_INPUT]),
    }
    text = Page(draw(tmp_path, make_verdict(Validity.INVALID, anomalies=anomalies))).text
    assert (
        text.index("reprocessed-input")
        < text.index("Warnings and allowed anomalies")
        < text.rindex("1 G0 cycle")
    )


def test_what_is_permitted_beside_what_counts_is_told(tmp_path: Path) -> None:
    anomalies = {"reprocessed-input": findings_of(1, [REPROCESSED_INPUT], permitted=41)}
    text = Page(draw(tmp_path, make_verdict(Validity.INVALID, anomalies=anomalies))).text
    assert "41 more are permitted by the guarantee of their stage, and not counted here." in text


def test_what_a_record_holds_and_what_its_input_must_lead_to_stand_beside_each_other(tmp_path: Path) -> None:
    due = [{"topic": "invoices", "output_name": "a", "content": "k: 70"}, "not a mapping"]
    example = {"record": record(1, content="k: 35"), "input": {"topic": "in", "offset": 3, "due": due}}
    text = Page(
        draw(tmp_path, make_verdict(Validity.INVALID, anomalies={"corrupt": findings_of(1, [example])}))
    ).text
    assert re.search(r"holds\s*k: 35", text) and re.search(r"must lead to\s*invoices: k: 70", text)
    for hollow in ("k: 70", {"content": HOSTILE}, [HOSTILE], None):
        example["input"]["due"] = hollow
        found = {"corrupt": findings_of(1, [example])}
        assert "<dt>must lead to" not in draw(tmp_path, make_verdict(Validity.INVALID, anomalies=found))


def test_what_has_no_answer_comes_with_what_to_change(tmp_path: Path) -> None:
    operations = [Operation("operation", {"op": 3, "name": "w1:2"}), Operation("operation", {"op": 9})]
    unsettled = IndeterminateOperations(7, operations)
    told = replace(make_verdict(Validity.UNKNOWN), not_checked={"unseen": NEEDS["log"]}, unsettled=unsettled)
    page = Page(draw(tmp_path, told))
    text = " ".join(page.text.split())
    assert "no paused worker came back after its replacement had begun" in text
    assert "repeat it with another --seed" in text
    assert "run it on a local cluster, where all logs can be read" in text
    assert "7 operations without a known outcome" in text and "w1:2 and operation 9" in text


def test_what_does_not_apply_is_one_folded_line_and_no_open_end(tmp_path: Path) -> None:
    told = make_verdict(Validity.VALID, not_checked={"G1c": EXTERNAL_ONLY, "G0": EXTERNAL_ONLY})
    html = draw(tmp_path, told)
    assert '<section id="open"' not in html
    (into_buckets,) = re.findall(r'<details id="not-applicable">(.*?)</details>', html, re.DOTALL)
    assert "2 checks do not apply" in into_buckets and "G1c" in into_buckets


def test_what_was_looked_for_is_listed_and_what_was_not_is_named_whole(tmp_path: Path) -> None:
    names = ["lost-commit", "ghost-commit", "hanging-transaction", "unmarked-partition", "replica-divergence"]
    judged = replace(
        make_verdict(Validity.VALID),
        not_checked=dict.fromkeys(names, NEEDS["log"]),
        checked=["torn-transaction", "unseen"],
    )
    html = draw(write_store(tmp_path, judged), judged)
    assert ", ".join(names) in Page(html).text
    (listed,) = re.findall(r'<p id="clean">(.*?)</p>', html, re.DOTALL)
    assert "torn-transaction" in listed
    assert "replica-divergence" not in listed


def test_an_instant_is_told_by_the_clock_of_the_brokers_logs_too() -> None:
    operation = Operation("operation", {"call_ns": 15_830_000_000, "return_ns": None})
    assert _moment(operation, "call_ns", 1_763_906_265_029.5) == "at 15.830 s (13:58:00.859 UTC)"
    assert _moment(operation, "call_ns") == "at 15.830 s"
    assert _moment(operation, "call_ns", 1e300) == "at 15.830 s"
    assert _moment(operation, "return_ns", 0.0) == "never"
    assert _moment(operation, "commit_ns", 0.0) == "unknown"


def test_an_invalid_run_that_lacks_evidence_is_not_called_unknown(tmp_path: Path) -> None:
    why = [Reason(ReasonCode.INCOMPLETE_EVIDENCE, "journal x lacks 1 line")]
    for valid, said in ((Validity.INVALID, False), (Validity.UNKNOWN, True)):
        text = Page(draw(tmp_path, make_verdict(valid, unknown_because=why))).text
        assert ("Why it is unknown" in text) is said
        assert "journal x lacks 1 line" in text
        assert "More about the reasons: fencepost explain incomplete-evidence" in text


def test_what_was_not_tried_has_no_advice_beside_its_reason(tmp_path: Path) -> None:
    judged = make_verdict(Validity.VALID, not_exercised={"pause-instance": "needs a custom pipeline"})
    text = Page(draw(tmp_path, judged)).text
    assert "needs a custom pipeline" in text and "repeat the run with a longer" not in text


def test_what_was_not_checked_has_the_advice_of_its_reason_and_no_other(tmp_path: Path) -> None:
    without = {"lost-write": NEEDS["healed"], "overlapping-commit": NEEDS["offsets-within"]}
    text = Page(draw(tmp_path, make_verdict(Validity.VALID, not_checked=without))).text
    assert NEEDS["healed"].text in text and "repeat the run with a longer" not in text
    assert "run a pipeline that commits its offsets in its transactions (sendOffsetsToTransaction)" in text


def test_an_example_says_which_command_tells_its_story(tmp_path: Path) -> None:
    """Where its run has tables that know it; no other has the words."""
    known = {"operation": operation(60, name="payments-1.0:0")}
    found = {"lost-commit": findings_of(2, [{"operation": operation(60)}, known])}
    judged = make_verdict(Validity.INVALID, anomalies=found)
    folder = write_store(tmp_path / "run", judged)
    assert re.findall(r'Step by step: <code dir="ltr">([^<]*)<', draw(folder, judged)) == [
        f"fencepost trace {folder} --op payments-1.0:0"
    ]
    assert "Step by step" not in draw(tmp_path / "nothing", judged)
    settings = (folder / "run.toml").read_text()
    (folder / "run.toml").write_text(settings.replace("wall_ms_at_zero", "wall_ms"))
    assert "Step by step" not in draw(folder, judged)  # `trace` would refuse it


def test_each_fault_says_what_it_met_where_the_journals_tell(tmp_path: Path) -> None:
    judged = make_verdict(Validity.VALID)
    page = draw(write_store(tmp_path / "run", judged), judged)
    met = re.findall(r'<td data-label="Operations under way">([^<]+)</td>', page)
    assert len(met) == len(FAULTS) and len(set(met)) == len(FAULTS)
    assert "Operations under way" not in draw(tmp_path / "nothing", judged)
    by_row = re.findall(
        r'<td data-label="Operations under way">([^<]*)</td>', draw(tmp_path / "run", unacted(judged))
    )
    assert by_row == ["", *met[1:]]


def unacted(judged: Verdict) -> Verdict:
    """The same, but the first fault did not act."""
    first, *others = judged.faults
    return replace(judged, faults=[replace(first, acted=False), *others])


def test_a_table_that_does_not_tell_what_faults_met_is_noted_once(tmp_path: Path) -> None:
    judged = make_verdict(Validity.VALID)
    path = write_store(tmp_path / "run", judged) / "history" / "ops.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["fenced"]), path)
    text = Page(draw(tmp_path / "run", judged)).text
    assert (
        text.count(
            "the operations under way during faults cannot be read: history/ops.parquet has no column fenced"
        )
        == 1
    )
    path.write_bytes(b"PAR1")
    assert "what the faults met" not in Page(draw(tmp_path / "run", judged)).text  # the series say so already
