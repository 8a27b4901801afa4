from xml.etree import ElementTree

from msgspec import structs

from harness.results.reasons import Reason, ReasonCode
from harness.results.verdict import Validity
from reports.junit import junit
from tests.support.findings import findings_of
from tests.support.synthetic_store import CHECKED_ANOMALIES, FAULTS, make_verdict

HOSTILE = "\x00\x1b]]><x>&\ud800\ufffe\u202e" + "k" * 1_000_000


CRASHED = Reason(ReasonCode.CHECK_CRASHED, "the check of lost-write crashed: out of memory", "lost-write")


def case(root: ElementTree.Element, name: str) -> ElementTree.Element:
    (match,) = [case for case in root.iter("testcase") if case.get("name") == name]
    return match


def test_a_valid_run_passes_every_case() -> None:
    root = ElementTree.fromstring(junit([(make_verdict(Validity.VALID), 86.5)]))
    assert root.get("tests") == str(1 + len(CHECKED_ANOMALIES) + len(FAULTS))
    assert (root.get("failures"), root.get("errors"), root.get("skipped")) == ("0", "0", "0")
    assert root.get("time") == "86.500"


def test_a_found_anomaly_is_a_failure_and_an_allowed_one_is_not() -> None:
    root = ElementTree.fromstring(junit([(make_verdict(Validity.INVALID), 1.0)]))
    failure = case(root, "reprocessed-input").find("failure")
    assert failure is not None
    assert failure.get("message") == "3 inputs took effect more than once"
    assert "purchases/1 offset 812" in (failure.text or "")
    assert case(root, "contended-id").find("failure") is None
    assert root.get("failures") == "3"  # the verdict, the finding and what follows from it


def test_an_unknown_verdict_is_an_error_and_a_missing_check_is_skipped() -> None:
    verdict = make_verdict(Validity.UNKNOWN, faults=[structs.replace(FAULTS[0], acted=False)])
    root = ElementTree.fromstring(junit([(verdict, 1.0)]))
    assert case(root, "verdict").find("error") is not None
    assert case(root, "1 kill-broker on broker 2, leader of invoices/0").find("error") is not None
    assert case(root, "1 fault 2 (pause-worker) did not act").find("error") is not None
    skipped = case(root, "hanging-transaction").find("skipped")
    assert skipped is not None
    assert skipped.get("message") == "not checked: no brokers' logs in this history"
    assert case(root, "zombie").find("skipped") is not None


def test_a_check_that_crashed_does_not_pass() -> None:
    verdict = make_verdict(Validity.UNKNOWN, unknown_because=[CRASHED], checked=["lost-write", "lost-input"])
    root = ElementTree.fromstring(junit([(verdict, 1.0)]))
    assert case(root, "lost-write").find("error") is not None
    assert len(case(root, "lost-input")) == 0


def test_the_xml_of_hostile_values_is_valid_and_short() -> None:
    verdict = make_verdict(
        Validity.INVALID,
        name=HOSTILE,
        history=HOSTILE,
        summary=HOSTILE,
        anomalies={
            HOSTILE: findings_of(1, [{HOSTILE: HOSTILE}]),
            "duplicate": findings_of(1, [{"value": HOSTILE}]),
        },
        not_checked={HOSTILE + "2": Reason(ReasonCode.INPUTS_LEFT, HOSTILE)},
        not_exercised={HOSTILE: HOSTILE},
        unknown_because=[Reason(ReasonCode.INPUTS_LEFT, HOSTILE)],
        faults=[structs.replace(FAULTS[0], target=HOSTILE, evidence=HOSTILE)],
    )
    document = junit([(verdict, 1.0)])
    ElementTree.fromstring(document.encode())
    assert len(document) < 50_000


def test_several_runs_are_several_suites() -> None:
    root = ElementTree.fromstring(
        junit([(make_verdict(Validity.VALID), 1.0), (make_verdict(Validity.INVALID), 2.0)])
    )
    assert [suite.get("failures") for suite in root] == ["0", "3"]
    assert ElementTree.fromstring(junit([])).get("tests") == "0"
