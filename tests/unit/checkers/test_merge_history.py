"""One verdict of a run's tables and of its clients' own history."""

from dataclasses import replace

from checkers.checking.merge_history import history_damaged, merge_history
from harness.model.promises import HISTORY_FILE
from harness.results.reasons import EXTERNAL_ONLY, Reason, ReasonCode
from harness.results.verdict import AnomalyFindings, CheckResult

PREMISE = Reason(ReasonCode.PREMISE_BROKEN, "the faults may destroy what brokers had written")
STORED = CheckResult(
    anomalies={},
    not_checked={"G1c": EXTERNAL_ONLY, "int-send-skip": EXTERNAL_ONLY, "aborted-read": PREMISE},
    broken={},
    checked=["lost-write", "unseen", "precommitted-read", "poll-skip", "int-poll-skip"],
    coverage={"committed": 7},
)
ONE = AnomalyFindings(1, [{"told": "by the history"}])
TOLD = CheckResult(
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


def told(**anomalies: AnomalyFindings) -> CheckResult:
    return replace(TOLD, anomalies={name.replace("_", "-"): found for name, found in anomalies.items()})


def test_what_the_history_alone_looks_for_comes_from_it():
    both = merge_history(STORED, told(G1c=ONE), {})
    assert both.anomalies == {"G1c": ONE}
    assert "G1c" in both.checked and "int-send-skip" in both.checked
    assert set(both.not_checked) == {"aborted-read"}


def test_where_both_look_the_tables_decide():
    both = merge_history(STORED, told(unseen=ONE, lost_write=ONE, aborted_read=ONE), {})
    assert not both.anomalies and both.not_checked["aborted-read"] == PREMISE
    assert both.coverage == {"committed": 7}


def test_of_the_order_of_polls_each_tells_what_it_has_seen():
    own = AnomalyFindings(3, [{"told": "by the tables"}])
    both = merge_history(
        replace(STORED, anomalies={"poll-skip": own}), told(poll_skip=ONE, int_poll_skip=ONE), {}
    )
    assert both.anomalies == {"poll-skip": own, "int-poll-skip": ONE}


def test_that_a_transaction_was_given_its_own_record_the_history_alone_has_seen():
    both = merge_history(STORED, told(precommitted_read=ONE), {})
    assert both.anomalies == {"precommitted-read": ONE}


def test_its_examples_have_the_names_that_those_of_a_run_have():
    reader = {"op": 7, "invoke_ns": 1, "complete_ns": 2}
    one = AnomalyFindings(1, [{"record": {"key": "k/3", "offset": 4}, "operations": [reader], "skipped": 1}])
    (example,) = merge_history(STORED, told(int_poll_skip=one), {}).anomalies["int-poll-skip"].examples
    assert example["record"] == {"topic": "k", "partition": 3, "key": "k/3", "offset": 4}
    assert example["operations"] == [{**reader, "call_ns": 1, "return_ns": 2}] and example["skipped"] == 1


def test_what_is_permitted_is_permitted_whoever_finds_it():
    both = merge_history(STORED, told(G1c=ONE), {"G1c": "--allow"})
    assert both.anomalies["G1c"].allowed and both.anomalies["G1c"].allowed_by == "--allow"


def test_what_the_history_could_not_decide_keeps_the_run_from_being_valid():
    crash = Reason(ReasonCode.CHECK_CRASHED, "the check of G1c crashed", "G1c")
    both = merge_history(STORED, replace(TOLD, broken={"G1c": crash}), {})
    assert both.broken == {"G1c": crash}


def test_a_graph_that_was_too_large_is_told():
    large = Reason(ReasonCode.GRAPH_TOO_LARGE, "looked for in parts alone")
    both = merge_history(STORED, replace(TOLD, not_checked={"G1c": large}), {})
    assert both.not_checked["G1c"] == large and "G1c" not in both.checked


def test_without_the_history_that_was_promised_nothing_is_valid_and_no_cycle_was_looked_for():
    gone = history_damaged("it is missing")
    both = merge_history(STORED, gone, {})
    assert both.broken == {HISTORY_FILE: gone}
    assert both.not_checked["G1c"] == gone and "G1c" not in both.checked


def test_where_lines_of_a_journal_are_gone_no_order_is_accused_and_a_circle_still_is():
    gone = Reason(ReasonCode.INCOMPLETE_EVIDENCE, "journal txn-1.0 lacks 2 lines")
    both = merge_history(replace(STORED, broken={"journal": gone}), told(G1c=ONE, poll_skip=ONE), {})
    assert both.anomalies == {"G1c": ONE} and both.broken == {"journal": gone}
