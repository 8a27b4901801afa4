import base64
import hashlib
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from msgspec import structs

from checkers.checker import NEEDS
from harness.record.protocol_journal import JOURNAL
from harness.results.example import Operation
from harness.results.reasons import KILLED, Reason, ReasonCode
from harness.results.recovery import MOST_ROWS, EntryCounts, Lag, PartitionLag
from harness.results.verdict import FaultReport, IndeterminateOperations, MembershipChange, Validity, Verdict
from reports.html import page
from reports.html.page import _moment, draw
from reports.html.stories import ReportStory
from tests.support.changed_requests import write_held_requests
from tests.support.findings import findings_of
from tests.support.html_page import HOSTILE, Page
from tests.support.synthetic_store import (
    FAULTS,
    REPROCESSED_INPUT,
    make_verdict,
    operation,
    record,
    write_journal,
    write_store,
)


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
        not_checked_because={HOSTILE: Reason(ReasonCode.INPUTS_LEFT, HOSTILE)},
        not_exercised={HOSTILE: HOSTILE},
        unknown_because=[Reason(ReasonCode.INPUTS_LEFT, HOSTILE, HOSTILE, HOSTILE)],
        coverage={HOSTILE: 1},
        stats={HOSTILE: HOSTILE},
        api_errors={HOSTILE: {HOSTILE: 1}},
        faults=[FaultReport(HOSTILE, HOSTILE, 1.0, None, False, HOSTILE, HOSTILE)],
        churn=[MembershipChange(HOSTILE, HOSTILE, HOSTILE, 1.0, 2.0, (HOSTILE,), (HOSTILE,), HOSTILE)],
        left=Lag.of(
            [
                PartitionLag(HOSTILE, HOSTILE, HOSTILE, 0, 1, 2, EntryCounts(committed_records=1)),
                PartitionLag(HOSTILE, HOSTILE, HOSTILE, 1, not_known=HOSTILE),
            ]
        ),
    )


def test_workers_that_joined_and_left_are_listed_with_the_moved_partitions(tmp_path: Path) -> None:
    churn = [
        MembershipChange("shop", "shop-4.0", None, 5.0, 6.0, ("purchases/3",)),
        MembershipChange("shop", None, "shop-2.0", 9.0, 10.0, why="no partition was free"),
    ]
    verdict = make_verdict(Validity.VALID, churn=churn)
    text = Page(draw(write_store(tmp_path, verdict), verdict)).text
    assert "Workers that joined and left" in text
    assert "purchases/3" in text and "none (no partition was free)" in text
    plain = make_verdict(Validity.VALID)
    assert "Workers that joined" not in Page(draw(write_store(tmp_path / "plain", plain), plain)).text


def test_the_rows_of_what_is_left_are_bounded_and_the_rest_is_counted(tmp_path: Path) -> None:
    rows = [
        PartitionLag("shop", "g", "in", n, 10_000, 10_000 + n, EntryCounts(commit_markers=n))
        for n in range(MOST_ROWS + 7)
    ]
    verdict = make_verdict(Validity.VALID, left=Lag.of(rows))
    text = Page(draw(write_store(tmp_path, verdict), verdict)).text
    assert "Is anything left?" in text and verdict.left is not None and verdict.left.summary in text
    assert f"in/{MOST_ROWS + 6}" in text and "10,056" in text and "56 commit markers" in text
    assert "7 more rows are not shown" in text and "in/6\n" not in text


@pytest.mark.parametrize("valid", Validity)
def test_the_report_of_a_complete_run_misses_nothing(tmp_path: Path, valid: Validity) -> None:
    verdict = make_verdict(valid)
    html = draw(write_store(tmp_path, verdict), verdict)
    page = Page(html)
    assert verdict.summary in page.text
    assert "Missing from the run" not in page.text
    for fault in FAULTS:
        assert fault.evidence in page.text
    assert "fencepost run --workload shop --time-limit 60 --seed 42" in page.text
    assert len(html) < 400_000


@pytest.mark.parametrize("valid", Validity)
def test_the_report_of_an_empty_folder_lists_the_missing_files(tmp_path: Path, valid: Validity) -> None:
    verdict = make_verdict(valid)
    page = Page(draw(tmp_path, verdict))
    assert verdict.summary in page.text
    for name in ("run.toml", "metadata.json", "history/ops.parquet", "the folder journals"):
        assert f"{name} does not exist" in page.text
    assert "fencepost replay store/shop/20261121T100000Z" in page.text


def test_an_empty_verdict_is_drawn(tmp_path: Path) -> None:
    assert "Unknown" in Page(draw(tmp_path, Verdict("h", "n", None, Validity.UNKNOWN.json, ""))).text


@pytest.mark.parametrize(
    "name", ["run.toml", "metadata.json", "history/ops.parquet", "history/sends.parquet"]
)
def test_a_damaged_file_is_named_and_the_rest_is_drawn(tmp_path: Path, name: str) -> None:
    verdict = make_verdict(Validity.VALID)
    folder = write_store(tmp_path, verdict)
    (folder / name).write_bytes(b"\xff\x00{")
    page = Page(draw(folder, verdict))
    assert "Missing from the run" in page.text
    assert verdict.summary in page.text


def test_every_link_within_the_page_has_one_anchor(tmp_path: Path) -> None:
    verdict = make_verdict(Validity.INVALID)
    page = Page(draw(write_store(tmp_path, verdict), verdict))
    anchors = page.all("id")
    assert len(anchors) == len(set(anchors))
    inner = [link[1:] for link in page.all("href") if link.startswith("#") and not link.startswith("#t=")]
    assert set(inner) <= set(anchors)
    assert "journal-1-line-119" in inner  # of shop-2.0, operation 60


def test_nothing_is_loaded_from_elsewhere(tmp_path: Path) -> None:
    verdict = make_verdict(Validity.INVALID)
    page = Page(draw(write_store(tmp_path, verdict), verdict))
    assert page.all("src") == []
    assert not any(re.match(r"[a-z]+:|//", link) for link in page.all("href") if link != "data:,")
    assert "url(" not in page.text


def test_the_policy_permits_these_styles_and_scripts_and_nothing_else(tmp_path: Path) -> None:
    html = draw(tmp_path, make_verdict(Validity.VALID))
    (policy,) = [a["content"] for t, a in Page(html).tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    for tag in ("style", "script"):
        texts = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts]
        permitted = " ".join(f"'sha256-{each}'" for each in hashes)
        assert f"{tag}-src {permitted};" in policy
        assert len(texts) == 3
    assert not Page(html).all("style")
    assert not any(name.startswith("on") for _, attributes in Page(html).tags for name in attributes)


def test_hostile_values_are_shown_and_have_no_effect(tmp_path: Path) -> None:
    verdict = hostile_verdict()
    folder = write_store(tmp_path, verdict)
    html = draw(folder, verdict)
    page = Page(html)
    names = [tag for tag, _ in page.tags]
    assert (names.count("script"), names.count("style"), names.count("img")) == (4, 3, 0)
    assert not any(character in html for character in "\x00\x1b\u202e")
    assert "<script>alert(1)</script>" in page.text
    assert "{{ 7 * 7 }}" in page.text
    assert len(html) < 300_000


@pytest.mark.parametrize("name", ["../../secret", "/etc/passwd", "..", "a\x00b", "x" * 5000])
def test_a_journal_outside_the_folder_is_never_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret.jsonl").write_text("the secret\n")
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    anomalies = {"lost-commit": findings_of(1, [{"operation": operation(1, name, line=1)}])}
    assert "the secret" not in draw(folder, make_verdict(Validity.INVALID, anomalies=anomalies))


def test_a_long_journal_line_is_shortened_and_a_missing_line_is_named(tmp_path: Path) -> None:
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


@pytest.mark.parametrize(("length", "is_complete"), [(7_000, True), (9_000, False)])
def test_a_line_of_a_finding_is_complete_or_its_cut_is_marked(
    tmp_path: Path, length: int, is_complete: bool
) -> None:
    write_journal(tmp_path, "shop-2.0", 2)
    with (tmp_path / "journals" / "shop-2.0.jsonl").open("a") as file:
        file.write('{"k":"' + "x" * length + '"}\n')
    anomalies = {"lost-commit": findings_of(1, [{"operation": operation(1, line=5)}])}
    text = Page(draw(tmp_path, make_verdict(Validity.INVALID, anomalies=anomalies))).text
    assert ("x" * length in text) is is_complete
    assert ("characters left out" in text) is not is_complete


def test_illegal_findings_come_before_allowed_ones(tmp_path: Path) -> None:
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


def test_permitted_findings_are_counted_separately(tmp_path: Path) -> None:
    anomalies = {"reprocessed-input": findings_of(1, [REPROCESSED_INPUT], permitted=41)}
    text = Page(draw(tmp_path, make_verdict(Validity.INVALID, anomalies=anomalies))).text
    assert "41 more are permitted by the guarantee of their stage, and not counted here." in text


def test_the_content_of_a_record_is_shown_with_the_expected_content(tmp_path: Path) -> None:
    due = [{"topic": "invoices", "output_name": "a", "content": "k: 70"}, "not a mapping"]
    example = {"record": record(1, content="k: 35"), "input": {"topic": "in", "offset": 3, "due": due}}
    text = Page(
        draw(tmp_path, make_verdict(Validity.INVALID, anomalies={"corrupt": findings_of(1, [example])}))
    ).text
    assert re.search(r"holds\s*k: 35", text) and re.search(r"must lead to\s*invoices: k: 70", text)
    for wrong_due in ("k: 70", {"content": HOSTILE}, [HOSTILE], None):
        example["input"]["due"] = wrong_due
        anomalies = {"corrupt": findings_of(1, [example])}
        assert "<dt>must lead to" not in draw(tmp_path, make_verdict(Validity.INVALID, anomalies=anomalies))


def test_open_questions_come_with_a_remedy(tmp_path: Path) -> None:
    operations = [Operation("operation", {"op": 3, "name": "w1:2"}), Operation("operation", {"op": 9})]
    unsettled = IndeterminateOperations(7, operations)
    verdict = structs.replace(
        make_verdict(Validity.UNKNOWN), not_checked_because={"unseen": NEEDS["log"]}, unsettled=unsettled
    )
    page = Page(draw(tmp_path, verdict))
    text = " ".join(page.text.split())
    assert "no paused worker came back after its replacement had begun" in text
    assert "repeat it with another --seed" in text
    assert "run it on a local cluster, where all logs can be read" in text
    assert "7 operations without a known outcome" in text and "w1:2 and operation 9" in text


def test_consequences_of_a_reason_are_folded_behind_it(tmp_path: Path) -> None:
    part = Reason(ReasonCode.INCOMPLETE_EVIDENCE, "nothing was <read>", "nothing read", because="run-killed")
    drawn = draw(tmp_path, make_verdict(Validity.UNKNOWN, unknown_because=[KILLED, part]))
    assert "<summary>and 1 consequence of it</summary><ul><li>nothing was &lt;read&gt;</li></ul>" in drawn
    assert Page(drawn).text.count(KILLED.text) >= 1


def test_a_moment_has_the_utc_time_of_the_broker_logs() -> None:
    operation = Operation("operation", {"call_ns": 15_830_000_000, "return_ns": None})
    assert _moment(operation, "call_ns", 1_763_906_265_029.5) == "at 15.830 s (13:58:00.859 UTC)"
    assert _moment(operation, "call_ns") == "at 15.830 s"
    assert _moment(operation, "call_ns", 1e300) == "at 15.830 s"
    assert _moment(operation, "return_ns", 0.0) == "never"
    assert _moment(operation, "commit_ns", 0.0) == "unknown"


def test_a_goal_that_was_not_exercised_has_no_advice_besides_its_reason(tmp_path: Path) -> None:
    verdict = make_verdict(Validity.VALID, not_exercised={"pause-instance": "needs a custom pipeline"})
    text = Page(draw(tmp_path, verdict)).text
    assert "needs a custom pipeline" in text and "repeat the run with a longer" not in text


def test_a_check_that_was_not_made_has_the_remedy_of_its_reason(tmp_path: Path) -> None:
    without = {"lost-write": NEEDS["healed"], "overlapping-commit": NEEDS["offsets-within"]}
    text = Page(draw(tmp_path, make_verdict(Validity.VALID, not_checked_because=without))).text
    assert NEEDS["healed"].text in text and "repeat the run with a longer" not in text
    assert "run a pipeline that commits its offsets in its transactions (sendOffsetsToTransaction)" in text


def test_an_example_has_a_trace_command_if_the_tables_can_answer_it(tmp_path: Path) -> None:
    traceable = {"operation": operation(60, name="payments-1.0:0")}
    anomalies = {"lost-commit": findings_of(2, [{"operation": operation(60)}, traceable])}
    verdict = make_verdict(Validity.INVALID, anomalies=anomalies)
    folder = write_store(tmp_path / "run", verdict)
    assert re.findall(r'Step by step: <code dir="ltr">([^<]*)<', draw(folder, verdict)) == [
        f"fencepost trace {folder} --op payments-1.0:0"
    ]
    assert "Step by step" not in draw(tmp_path / "nothing", verdict)
    settings = (folder / "run.toml").read_text()
    (folder / "run.toml").write_text(settings.replace("wall_ms_at_zero", "wall_ms"))
    assert "Step by step" not in draw(folder, verdict)  # `trace` would refuse it


def test_each_fault_has_its_operations_under_way_if_there_are_journals(tmp_path: Path) -> None:
    verdict = make_verdict(Validity.VALID)
    page = draw(write_store(tmp_path / "run", verdict), verdict)
    met = re.findall(r'<td data-label="Operations under way">([^<]+)</td>', page)
    assert len(met) == len(FAULTS) and len(set(met)) == len(FAULTS)
    assert "Operations under way" not in draw(tmp_path / "nothing", verdict)
    by_row = re.findall(
        r'<td data-label="Operations under way">([^<]*)</td>',
        draw(tmp_path / "run", with_first_fault_not_acted(verdict)),
    )
    assert by_row == ["", *met[1:]]


def with_first_fault_not_acted(verdict: Verdict) -> Verdict:
    first, *others = verdict.faults
    return structs.replace(verdict, faults=[structs.replace(first, acted=False), *others])


def test_an_unreadable_table_of_operations_is_noted_once(tmp_path: Path) -> None:
    verdict = make_verdict(Validity.VALID)
    path = write_store(tmp_path / "run", verdict) / "history" / "ops.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["fenced"]), path)
    text = Page(draw(tmp_path / "run", verdict)).text
    assert text.count("history/ops.parquet has no column fenced") == 1
    path.write_bytes(b"PAR1")
    text = Page(draw(tmp_path / "run", verdict)).text  # the series note it already
    assert "the operations under way during faults cannot be read" not in text


def test_requests_that_rules_changed_are_listed_with_their_times(tmp_path: Path) -> None:
    verdict = make_verdict(Validity.VALID)
    folder = write_store(tmp_path / "run", verdict)
    assert "changed by a rule" not in draw(folder, verdict)
    write_held_requests(folder, "shop-2")
    html = draw(folder, verdict)
    table = html[html.index('id="changed-requests"') :]
    row = re.sub(
        r"\s+",
        " ",
        " ".join(re.findall(r">([^<]+)<", table[table.index("<tbody>") : table.index("</tbody>")])),
    )
    assert row.strip() == (
        "3.214 s shop-2, client id rdkafka EndTxn(abort) 41 held by late-end-txn 4.414 s , broker 2, "
        "when AddOffsetsToTxn request 16 was seen 4.420 s , NONE"
    )
    marks = re.findall(r'class="message (\w+)"><title>([^<]*)<', html)
    assert [kind for kind, _ in marks] == ["sent", "delivered", "answered"] * 2  # in two widths
    assert marks[2][1] == "EndTxn(abort) 41 of shop-2: at 4.420 s answered NONE, which its client did not get"
    assert "Missing from the run" not in html


def test_further_requests_that_rules_changed_are_counted(tmp_path: Path) -> None:
    verdict = make_verdict(Validity.VALID)
    folder = write_store(tmp_path / "run", verdict)
    without = len(draw(folder, verdict))
    write_held_requests(folder, *["shop-2"] * 1100)
    html = draw(folder, verdict)
    assert html.count('data-label="Request"') == 50
    assert "1,050 more in" in html and len(html) - without < 150_000


def test_a_finding_mentions_the_held_request_of_its_transactional_id(tmp_path: Path) -> None:
    op = operation(60) | {"transactional_id": "shop-2", "call_ns": 4_000_000_000, "return_ns": 5_000_000_000}
    verdict = make_verdict(Validity.INVALID, anomalies={"lost-commit": findings_of(1, [{"operation": op}])})
    folder = write_store(tmp_path / "run", verdict)
    write_held_requests(folder, "shop-1", "shop-2")
    write_held_requests(folder, "shop-2", sent_s=50.0, first=3)
    html = draw(folder, verdict)
    (mentioned,) = re.findall(r"<dt>changed by a rule</dt><dd>([^<]*)</dd>", html)
    assert mentioned == (
        "EndTxn(abort) 42 of shop-2: at 3.214 s sent, and held by late-end-txn; "
        "at 4.414 s delivered to broker 2 when AddOffsetsToTxn request 16 was seen; "
        "at 4.420 s answered NONE, which its client did not get"
    )
    assert html.count('class="bar rule"') == 2  # in two widths


def test_a_damaged_journal_of_the_proxy_is_noted(tmp_path: Path) -> None:
    verdict = make_verdict(Validity.VALID)
    folder = write_store(tmp_path / "run", verdict)
    write_held_requests(folder, "shop-2")
    with (folder / JOURNAL).open("a") as file:
        file.write('{"request": 1}\n')
    assert "1 line of protocol.jsonl cannot be read" in draw(folder, verdict)
    plan = folder / "run.toml"
    plan.write_text(plan.read_text().replace("monotonic_ns_at_zero", "other"))
    assert draw(folder, verdict).count("run.toml does not say when the run began") == 1


def story(**facts: object) -> ReportStory:
    defaults: dict[str, Any] = {
        "sentence": "a finding",
        "cause": (),
        "summary": "",
        "counted": "",
        "ident": "x",
    }
    return ReportStory(**{**defaults, "drawing": None, "legend": "", "messages": (), "left_out": 0, **facts})


@pytest.mark.parametrize(
    ("stories", "after"),
    [([story()], "paused"), ([story(), story(summary="EndTxn requests arrived late")], "arrived late")],
)
def test_the_known_cause_of_a_finding_replaces_the_last_fault_in_the_summary(
    stories: list[ReportStory], after: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "report_stories", lambda *_: (stories, []))
    verdict = make_verdict(Validity.INVALID, summary="1 input took effect twice, after worker 2 was paused")
    html = draw(write_store(tmp_path / "run", verdict), verdict)
    (summary,) = re.findall(r'<p class="reason"><bdi>([^<]*)</bdi>', html)
    assert ("paused" in summary, "arrived late" in summary) == (after == "paused", after == "arrived late")
    assert "The first finding, with its evidence" in html and "The finding that is drawn" not in html


def test_a_valid_run_with_a_planted_defect_says_what_showed_it(tmp_path: Path) -> None:
    contended = {"contended-id": findings_of(2, [REPROCESSED_INPUT], allowed=True, warning=True)}
    for anomalies, words in (
        ({}, "No finding of this run shows it."),
        (contended, "it led to a warning: contended-id."),
    ):
        verdict = make_verdict(Validity.VALID, anomalies=anomalies)
        folder = write_store(tmp_path / words[:2], verdict)
        (folder / "run.toml").write_text("[options]\ndefect = 'shared-transactional-id'\n")
        assert words in re.sub(r"\s+", " ", Page(draw(folder, verdict)).text)
