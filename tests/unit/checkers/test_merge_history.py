"""One result of a run's tables and of its clients' history."""

from dataclasses import replace

from msgspec import structs

from checkers.histories.check import history_damaged, merge_history
from harness.model.promises import HISTORY_FILE
from harness.results.reasons import EXTERNAL_ONLY, Reason, ReasonCode
from harness.results.verdict import AnomalyFindings, CheckResult
from tests.support.findings import findings_of

PREMISE = Reason(ReasonCode.PREMISE_BROKEN, "the faults may destroy what brokers had written")
STORED = CheckResult(
    anomalies={},
    not_checked={"G1c": EXTERNAL_ONLY, "int-send-skip": EXTERNAL_ONLY, "aborted-read": PREMISE},
    broken={},
    checked=["lost-write", "unseen", "precommitted-read", "poll-skip", "int-poll-skip"],
    coverage={"committed": 7},
)
ONE = findings_of(1, [{"told": "by the history"}])
EXTERNAL = CheckResult(
    anomalies={},
    not_checked={"corrupt": Reason(ReasonCode.EXTERNAL_HISTORY, "names no digests")},
    broken={},
    checked=[
        "G1c",
        "int-send-skip",
        "aborted-read",
        "lost-write",
        "unseen",
        "precommitted-read",
        "poll-skip",
        "int-poll-skip",
    ],
    coverage={"committed": 9},
)


def external(**anomalies: AnomalyFindings) -> CheckResult:
    return replace(EXTERNAL, anomalies={name.replace("_", "-"): found for name, found in anomalies.items()})


def test_the_history_decides_about_what_only_it_checks():
    both = merge_history(STORED, external(G1c=ONE), {})
    assert both.anomalies == {"G1c": ONE}
    assert "G1c" in both.checked and "int-send-skip" in both.checked
    assert set(both.not_checked) == {"aborted-read"}


def test_the_tables_decide_about_what_both_check():
    both = merge_history(STORED, external(unseen=ONE, lost_write=ONE, aborted_read=ONE), {})
    assert not both.anomalies and both.not_checked["aborted-read"] == PREMISE
    assert both.coverage == {"committed": 7}


def test_both_report_the_order_of_polls():
    own = findings_of(3, [{"told": "by the tables"}])
    both = merge_history(
        replace(STORED, anomalies={"poll-skip": own}), external(poll_skip=ONE, int_poll_skip=ONE), {}
    )
    assert both.anomalies == {"poll-skip": own, "int-poll-skip": ONE}


def test_the_history_adds_precommitted_reads():
    both = merge_history(STORED, external(precommitted_read=ONE), {})
    assert both.anomalies == {"precommitted-read": ONE}


def test_examples_get_the_keys_of_stored_runs():
    reader = {"op": 7, "invoke_ns": 1, "complete_ns": 2}
    one = findings_of(1, [{"record": {"key": "k/3", "offset": 4}, "operations": [reader], "skipped": 1}])
    (example,) = merge_history(STORED, external(int_poll_skip=one), {}).anomalies["int-poll-skip"].examples
    example = example.as_json()
    assert example["record"] == {"topic": "k", "partition": 3, "key": "k/3", "offset": 4}
    assert example["operations"] == [{**reader, "call_ns": 1, "return_ns": 2}] and example["skipped"] == 1


def test_a_skip_is_a_consequence_only_if_the_tables_found_its_cause():
    skip = structs.replace(ONE, because="lost-write")
    history = external(poll_skip=skip, lost_write=ONE)
    alone = merge_history(STORED, history, {}).anomalies["poll-skip"]
    both = merge_history(replace(STORED, anomalies={"lost-write": ONE}), history, {}).anomalies["poll-skip"]
    permitted = structs.replace(ONE, allowed=True)
    other = merge_history(replace(STORED, anomalies={"lost-write": permitted}), history, {})
    assert (alone.because, both.because, other.anomalies["poll-skip"].because) == (None, "lost-write", None)


def test_a_permitted_anomaly_of_the_history_is_allowed():
    both = merge_history(STORED, external(G1c=ONE), {"G1c": "--allow"})
    assert both.anomalies["G1c"].allowed and both.anomalies["G1c"].allowed_by == "--allow"


def test_a_broken_history_check_makes_the_run_unknown():
    crash = Reason(ReasonCode.CHECK_CRASHED, "the check of G1c crashed", "G1c")
    both = merge_history(STORED, replace(EXTERNAL, broken={"G1c": crash}), {})
    assert both.broken == {"G1c": crash}


def test_a_graph_that_was_too_large_is_in_not_checked():
    large = Reason(ReasonCode.GRAPH_TOO_LARGE, "looked for in parts alone")
    both = merge_history(STORED, replace(EXTERNAL, not_checked={"G1c": large}), {})
    assert both.not_checked["G1c"] == large and "G1c" not in both.checked


def test_a_missing_history_makes_the_run_unknown():
    gone = history_damaged("it is missing")
    both = merge_history(STORED, gone, {})
    assert both.broken == {HISTORY_FILE: gone}
    assert both.not_checked["G1c"] == gone and "G1c" not in both.checked


def test_with_missing_journal_lines_the_history_adds_cycles_but_no_order():
    gone = Reason(ReasonCode.INCOMPLETE_EVIDENCE, "journal txn-1.0 lacks 2 lines")
    both = merge_history(replace(STORED, broken={"journal": gone}), external(G1c=ONE, poll_skip=ONE), {})
    assert both.anomalies == {"G1c": ONE} and both.broken == {"journal": gone}
