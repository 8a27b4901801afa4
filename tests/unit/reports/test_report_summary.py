import pytest
from msgspec import structs

from checkers.checker import NEEDS
from harness.results.example import Example
from harness.results.reasons import EXTERNAL_ONLY, KILLED, NO_AGGREGATE, NO_ORDER, Reason, ReasonCode
from harness.results.verdict import Validity
from reports.summary import causes_first
from tests.support.findings import findings_of
from tests.support.synthetic_store import FAULTS, REPROCESSED_INPUT, make_verdict, operation, summarize


def test_the_reason_counts_the_findings_and_names_the_fault_before_them() -> None:
    assert (
        summarize(make_verdict(Validity.INVALID))
        == "3 inputs took effect more than once, after worker shop-2.0 was paused and replaced"
    )


def test_a_fault_that_did_not_act_or_came_later_is_not_named() -> None:
    faults = [structs.replace(FAULTS[1], acted=False), structs.replace(FAULTS[0], start_s=36.0)]
    assert summarize(make_verdict(Validity.INVALID, faults=faults)) == "3 inputs took effect more than once"


def test_a_cause_comes_before_its_consequences() -> None:
    anomalies = {
        "stalled": findings_of(1, [], allowed=True, warning=True),
        "lost-input": findings_of(9, [], because="lost-commit"),
        "duplicate": findings_of(1, []),
        "lost-commit": findings_of(2, []),
        "G0": findings_of(1, [], allowed=True),
    }
    assert [name for name, _ in causes_first(anomalies)] == [
        "duplicate",
        "lost-commit",
        "lost-input",
        "stalled",
        "G0",
    ]
    text = summarize(make_verdict(Validity.INVALID, anomalies=anomalies, faults=[]))
    assert text == "1 value is stored more than once and 2 acknowledged commits were lost"


def test_anomalies_that_follow_from_each_other_are_all_listed() -> None:
    anomalies = {"a": findings_of(1, [], because="b"), "b": findings_of(1, [], because="a")}
    assert {name for name, _ in causes_first(anomalies)} == {"a", "b"}
    assert "a was found once" in summarize(make_verdict(Validity.INVALID, anomalies=anomalies))


def test_a_valid_run_claims_no_more_than_was_checked() -> None:
    verdict = make_verdict(Validity.VALID)
    assert (
        summarize(verdict) == "120,034 inputs of all stages took effect exactly once under 3 faults, "
        "in 3,900 committed transactions"
    )
    assert "exactly once" not in summarize(
        structs.replace(verdict, not_checked_because={"lost-input": NEEDS["log"]})
    )
    for reason in (EXTERNAL_ONLY, NO_ORDER, NO_AGGREGATE):
        assert "exactly once" in summarize(structs.replace(verdict, not_checked_because={"G1c": reason}))
    assert "exactly once" not in summarize(
        structs.replace(verdict, anomalies={"duplicate": findings_of(1, [REPROCESSED_INPUT], allowed=True)})
    )


def test_anomalies_that_the_caller_permits_are_named() -> None:
    verdict = make_verdict(Validity.VALID)
    for by, words in (
        ("Kafka", "nothing was found that the guarantee forbids"),
        ("--allow", "no anomaly was found except those that --allow permits (G0) among"),
    ):
        findings = {"G0": findings_of(1, [REPROCESSED_INPUT], allowed=True, allowed_by=by)}
        assert words in summarize(structs.replace(verdict, anomalies=findings))


def test_a_warning_comes_after_the_sentence_of_a_valid_run() -> None:
    contended = {"contended-id": findings_of(416, [], allowed=True, warning=True)}
    text = summarize(structs.replace(make_verdict(Validity.VALID), anomalies=contended))
    assert text.endswith(
        "in 3,900 committed transactions; warning: 416 times, a worker took back a transactional id that it had lost"
    )


def test_the_summary_of_an_unknown_run_is_its_first_reason() -> None:
    assert (
        summarize(make_verdict(Validity.UNKNOWN)) == "fault 2 (pause-worker) did not act (and 1 more reason)"
    )
    assert (
        summarize(make_verdict(Validity.UNKNOWN, unknown_because=[])) == "there is not enough evidence to say"
    )


def test_the_summary_of_an_unknown_run_counts_consequences_apart_from_other_reasons() -> None:
    parts = [
        Reason(ReasonCode.INCOMPLETE_EVIDENCE, f"{name} is missing", name, because="run-killed")
        for name in "ab"
    ]
    other = Reason(ReasonCode.CHECK_CRASHED, "a check crashed")
    for reasons, notes in (
        ([KILLED, *parts], "and 2 consequences of it"),
        ([KILLED, *parts, other], "and 2 consequences of it, and 1 more reason"),
        ([KILLED, other], "and 1 more reason"),
    ):
        verdict = make_verdict(Validity.UNKNOWN, unknown_because=reasons)
        assert summarize(verdict) == f"{KILLED.text} ({notes})"


def test_an_operation_without_times_has_no_fault_before_it() -> None:
    example = {"operation": operation(1, call_ns=None, commit_ns=None, return_ns=None)}
    text = summarize(make_verdict(Validity.INVALID, anomalies={"lost-commit": findings_of(1, [example])}))
    assert text == "1 acknowledged commit was lost"


def test_a_fault_is_named_only_for_the_examples_that_are_shown() -> None:
    verdict = make_verdict(Validity.INVALID)
    more = {
        name: structs.replace(findings, count=findings.count + 1)
        for name, findings in verdict.anomalies.items()
    }
    expected = summarize(structs.replace(verdict, anomalies=more))
    assert expected.endswith("; before the examples shown, worker shop-2.0 was paused and replaced")


@pytest.mark.parametrize(("more", "expected"), [(0, "them"), (1, "the examples shown")])
def test_each_fault_before_an_example_is_named(more: int, expected: str) -> None:
    verdict = make_verdict(Validity.INVALID)
    findings = verdict.anomalies["reprocessed-input"]
    early = operation(7, call_ns=14_000_000_000, commit_ns=14_100_000_000, return_ns=None)
    records = [{**record, "operation": early} for record in REPROCESSED_INPUT["records"]]
    examples = [Example.from_json({**REPROCESSED_INPUT, "records": records}), *findings.examples[1:]]
    anomalies = {
        "reprocessed-input": structs.replace(findings, examples=examples, count=len(examples) + more)
    }
    faults = "broker 2 was killed and worker shop-2.0 was paused and replaced"
    assert summarize(structs.replace(verdict, anomalies=anomalies)).endswith(f"; before {expected}, {faults}")
