"""The liveness of faults on the console, in JUnit, in the report and on the page of a suite."""

from pathlib import Path
from xml.etree import ElementTree

from msgspec import structs

from harness.common.documents import decode, encode
from harness.results.recovery import Liveness
from harness.results.suite import Suite
from harness.results.verdict import Validity, Verdict
from reports.console import MOST_FAULTS, last_lines
from reports.html.page import draw
from reports.html.suite import draw as draw_suite
from reports.junit import junit
from reports.liveness_text import describe_recovery, recovery_details
from tests.support.suites import cell, suite
from tests.support.synthetic_store import FAULTS, make_verdict, write_store

MEASURED = Liveness(
    first_commit_s=1.2,
    longest_gap_s=3.4,
    lso_still_s=2.25,
    lso_partition="in<b>/2",
    rate_back_s=5.0,
    latency_back_s=6.0,
    lag_back_s=0.0,
    aborted=3,
    bound_s=40.0,
)
WORDS = "commits again after 1.2 s, longest gap 3.4 s, back to normal after 6.0 s"
NOT_KNOWN = Liveness(not_known="a fault changed a clock")


def measured(*livenesses: Liveness | None) -> Verdict:
    faults = [structs.replace(FAULTS[0], liveness=liveness) for liveness in livenesses]
    return make_verdict(Validity.VALID, faults=faults)


def test_a_recovery_is_one_sentence() -> None:
    assert describe_recovery(MEASURED) == WORDS
    assert describe_recovery(None) == ""
    assert describe_recovery(NOT_KNOWN) == "not known: a fault changed a clock"


def test_what_did_not_happen_is_said() -> None:
    assert describe_recovery(Liveness()) == (
        "no commit followed, rate, latency and lag not back to normal before the next fault or the end of the load"
    )
    assert ", lag not back to normal before" in describe_recovery(structs.replace(MEASURED, lag_back_s=None))


def test_without_load_before_the_fault_it_is_not_known_what_is_normal() -> None:
    early = structs.replace(
        MEASURED, rate_back_s=None, latency_back_s=None, lag_back_s=None, seconds_before=2
    )
    assert describe_recovery(early).endswith(
        "not known when back to normal: only 2 seconds of load before it"
    )
    backs = ("Rate back", "Latency back", "Lag back")
    assert [value for name, value in recovery_details(early) if name in backs] == ["not known"] * 3
    late = structs.replace(early, seconds_before=3)
    assert "rate, latency and lag not back to normal before" in describe_recovery(late)
    assert [value for name, value in recovery_details(late) if name in backs] == ["not seen"] * 3


def test_a_run_that_never_left_its_bands_stayed_normal() -> None:
    words = describe_recovery(structs.replace(MEASURED, rate_back_s=0.0, latency_back_s=0.0))
    assert words.endswith("longest gap 3.4 s, stayed normal")


def test_a_gap_beyond_the_bound_names_the_bound() -> None:
    words = describe_recovery(structs.replace(MEASURED, longest_gap_s=50.0))
    assert "longest gap 50.0 s (the time-outs explain 40.0 s)" in words


def test_the_console_has_a_line_for_each_fault_that_stored_its_liveness() -> None:
    lines = last_lines(measured(MEASURED, None, NOT_KNOWN), Path("s"), "c")
    assert [line for line in lines if "kill-broker: " in line] == [
        f"  fault 1, kill-broker: {WORDS}",
        "  fault 3, kill-broker: not known: a fault changed a clock",
    ]
    assert not any(
        "recover" in line or "commits again" in line for line in last_lines(measured(None), Path("s"), "c")
    )


def test_the_console_counts_faults_beyond_the_first_ten() -> None:
    lines = last_lines(measured(*[MEASURED] * (MOST_FAULTS + 2)), Path("s"), "c")
    assert sum(WORDS in line for line in lines) == MOST_FAULTS
    assert "  2 more faults in the report" in lines


def test_junit_has_the_recovery_beside_the_evidence() -> None:
    root = ElementTree.fromstring(junit([(measured(MEASURED), 1.0)]))
    (text,) = [out.text for out in root.iter("system-out")]
    assert text == f"process 4711 ended by SIGKILL\nrecovery: {WORDS}"


def test_the_report_has_the_recovery_in_words_and_in_numbers(tmp_path: Path) -> None:
    verdict = measured(MEASURED, NOT_KNOWN, None)
    html = draw(write_store(tmp_path / "run", verdict), verdict)
    assert f'<td data-label="Recovery">{WORDS}</td>' in html
    assert '<td data-label="Recovery">not known: a fault changed a clock</td>' in html
    assert '<td data-label="Recovery">\u2013</td>' in html
    # One column: the fault whose liveness is known.
    assert '<th scope="row">LSO stood still</th><td>2.2 s, in&lt;b&gt;/2</td></tr>' in html
    assert '<th scope="row">First commit after the heal</th><td>not seen</td></tr>' in html
    assert '<th scope="row">Fenced</th><td>not known</td></tr>' in html


def test_a_report_without_liveness_has_no_column_for_it(tmp_path: Path) -> None:
    for verdict in (measured(None), measured(NOT_KNOWN)):
        html = draw(write_store(tmp_path / str(id(verdict)), verdict), verdict)
        assert "Recovery in numbers" not in html
        assert ('data-label="Recovery"' in html) == (verdict.faults[0].liveness is not None)


def test_a_suite_shows_the_longest_gap_of_each_run_with_its_fault() -> None:
    gaps = {"kill-broker": 3.4, "partition": 7.25}
    html = draw_suite(suite(cell(nemesis="a", gaps_s=gaps), cell(nemesis="b")))
    assert html.count("longest gap") == 1
    assert "longest gap 7.2 s (partition)" in html


def test_a_suite_of_an_earlier_version_has_no_gaps() -> None:
    body = encode(suite(cell(gaps_s={"partition": 7.25})))
    assert decode(body, Suite).cells[0].gaps_s == {"partition": 7.25}
    del body["cells"][0]["gaps_s"]
    assert decode(body, Suite).cells[0].gaps_s == {}
