"""Findings in the broker logs of a pipeline without journals. If its evidence is incomplete, the run is unknown."""

from collections.abc import Callable, Mapping
from functools import partial

import pytest
from one_job import WantedRun, want

from checkers.anomalies.offset_output_mismatch import IN_NO_TRANSACTION, OFFSETS_OUTSIDE
from checkers.checking.stored_runs import with_wording
from checkers.needs import BY_MARKERS, BY_OFFSETS, CONTENTS
from harness.results.verdict import AnomalyFindings, CheckResult
from reports.findings_text import first_example_sentence as sentence
from tests.support.histories import History
from tests.support.stored_tables import OFFSETS

Draw = Callable[[History], None]
Results = Mapping[WantedRun, CheckResult]


def whole(h: History) -> None:
    """No internal topic is compacted."""
    h.alter("partitions", lambda row: row | {"compacted": False})


def a_transaction_that_wrote_nothing(h: History) -> None:
    h.feed(1)
    h.transact(0)
    h.append_marker("x", 1, "commit")
    h.log_transaction(1, ["x"])
    whole(h)


def a_marker_that_the_transaction_log_does_not_account_for(h: History) -> None:
    h.feed(1)
    h.transact(0)
    h.append("y", None, 1)
    h.append_marker("y", 1, "commit")
    h.append("y", None, 1)
    h.append_marker("y", 1, "commit")
    h.log_transaction(1, ["y"])
    whole(h)


def offsets_that_the_table_lacks(h: History) -> None:
    h.feed(1)
    h.transact(0)
    h.alter("offsets", lambda row: None)
    whole(h)


def a_state_that_the_table_lacks(h: History) -> None:
    h.feed(1)
    h.transact(0)
    h.alter("transactions", lambda row: None if row["state"] == "CompleteCommit" else row)
    whole(h)


def a_group_that_goes_back_and_on(h: History) -> None:
    """Each transaction has the outputs of the inputs that its offsets cover."""
    h.feed(3)
    for at in (0, 1, 2, 0, 1, 2):
        h.transact(at, claim=(at, at + 1))
    whole(h)


def an_output_of_an_input_below_its_offsets(h: History) -> None:
    h.feed(2)
    h.transact(0)
    h.transact(0, claim=(1, 2))
    whole(h)


def an_output_of_an_input_above_its_offsets(h: History) -> None:
    h.feed(2)
    h.transact(1, claim=(0, 1))
    h.transact(0, claim=(1, 2))
    whole(h)


def an_output_that_names_no_input(h: History) -> None:
    h.feed(1)
    h.transact(0)
    h.append("x", None, -1, digest=7)
    whole(h)


def nothing_is_expected(h: History) -> None:
    h.feed(1)
    h.transact(0)
    h.alter_expected(lambda row: None)
    whole(h)


CASES: tuple[tuple[Draw, set[str], set[str]], ...] = (
    (a_transaction_that_wrote_nothing, set(), set()),
    (a_marker_that_the_transaction_log_does_not_account_for, set(), {BY_MARKERS, "transactions"}),
    (offsets_that_the_table_lacks, set(), {"offsets", "progress of g in a/0"}),
    (a_state_that_the_table_lacks, set(), {"transactions"}),
    (a_group_that_goes_back_and_on, {"reprocessed-input", "group-offset-regression"}, set()),
    (
        an_output_of_an_input_below_its_offsets,
        {"offset-output-mismatch", "reprocessed-input", "lost-input"},
        set(),
    ),
    (an_output_of_an_input_above_its_offsets, {"offset-output-mismatch"}, set()),
    (an_output_that_names_no_input, {"phantom"}, set()),
    (nothing_is_expected, set(), {"expected"}),
)
"""Each history with the expected anomalies, and with a part of the reason why the run is unknown."""


def drawn(draw: Draw) -> History:
    history = History()
    draw(history)
    return history


RUNS = {draw.__name__: want(partial(drawn, draw), blind=True) for draw, _, _ in CASES}


@pytest.fixture
def results(result_of: Results) -> dict[str, CheckResult]:
    return {name: result_of[run] for name, run in RUNS.items()}


@pytest.mark.parametrize(("draw", "anomalies", "unknown"), CASES, ids=[draw.__name__ for draw, _, _ in CASES])
def test_missing_evidence_makes_no_finding(
    draw: Draw, anomalies: set[str], unknown: set[str], results: dict[str, CheckResult]
) -> None:
    result = results[draw.__name__]
    assert result.anomalies.keys() == anomalies, result.anomalies
    assert result.broken.keys() == unknown, result.broken
    assert (BY_MARKERS in result.not_checked) == (BY_MARKERS in unknown)


def processed(h: History) -> None:
    h.feed(1)
    h.transact(0)
    whole(h)


DESCRIBED = [
    want(partial(drawn, processed), without_journals=True, blind=True, topics=topics)
    for topics in (frozenset({"a", "x"}), frozenset(History().topics))
]


def test_an_undescribed_topic_is_in_not_checked(result_of: Results) -> None:
    without_y, with_all = (result_of[run].not_checked for run in DESCRIBED)
    assert "does not name y:" in without_y[CONTENTS].text
    assert CONTENTS not in with_all


def last_record(committed_within: int, committed_after: int, sums: int = 2, expects: str = "") -> History:
    """A transaction with the last total of a key to which the first inputs add, its group's offset, and one after."""
    h = History(expects=expects)
    h.feed(2)
    for at in range(sums):
        h.expect_amount(at, "k", 3)
    h.append("y", None, 1, key="k", state=3 * sums)
    topics = ["y"]
    if committed_within:
        h.commit_offset(committed_within, pid=1)
        topics.append(OFFSETS)
    for topic in topics:
        h.append_marker(topic, 1, "commit")
    h.log_transaction(1, topics)
    if committed_after:
        h.commit_offset(committed_after)
    whole(h)
    return h


PAST_THE_LAST = [
    want(partial(last_record, within, after, sums), blind=True)
    for within, after, sums in (
        (2, 0, 2),
        (0, 2, 2),
        (1, 2, 2),
        (1, 2, 1),
        (2, 2, 2),
        (1, 10**12, 2),  # any program may commit such an offset: none of them is listed
    )
]


def test_a_plain_offset_past_the_last_record_is_found(result_of: Results) -> None:
    found = [result_of[run].anomalies for run in PAST_THE_LAST]
    counts = [{name: one.count for name, one in anomalies.items()} for anomalies in found]
    outside = {"offset-output-mismatch": 1}
    assert counts == [{}, outside, outside, {}, {}, outside]
    (example,) = found[2]["offset-output-mismatch"].examples
    assert (example.inputs[0].get("offset"), example.rest["why"]) == (1, OFFSETS_OUTSIDE)
    assert sentence(
        "offset-output-mismatch",
        with_wording("offset-output-mismatch", AnomalyFindings(1, examples=[example])),
    ) == (
        "group g committed a/0 up to 2 outside any transaction and went past input a/0 offset 1, but the output of "
        "that input is written in a transaction"
    )


COMPARED = [want(partial(last_record, 2, 0, expects=expects), blind=True) for expects in ("", "x")]


def test_offsets_are_compared_where_only_last_records_are_checked(result_of: Results) -> None:
    # Of the other outputs none was compared with an offset.
    assert [BY_OFFSETS in result_of[run].not_checked for run in COMPARED] == [False, True]


def with_a_plain_record() -> History:
    """An input, its output in a transaction, and a record of y outside any."""
    history = History()
    history.feed(1)
    history.transact(0)
    history.append("y", None)
    whole(history)
    return history


def with_a_plain_record_that_was_not_read() -> History:
    """The record may be the sentinel."""
    unread = with_a_plain_record()
    unread.alter("records", lambda row: None)
    return unread


PLAIN_RECORDS = [
    want(draw, without_journals=True, blind=True, healed=False, transactional_topics=frozenset(topics))
    for draw, topics in (
        (with_a_plain_record, "xy"),
        (with_a_plain_record, "x"),
        (with_a_plain_record_that_was_not_read, "xy"),
    )
]


def test_a_plain_record_where_stages_write_in_transactions_is_a_mismatch(result_of: Results) -> None:
    found = [result_of[run].anomalies.get("offset-output-mismatch") for run in PLAIN_RECORDS]
    assert found[0] is not None and found[1:] == [None, None]
    (example,) = found[0].examples
    assert (example.first_record.get("topic"), example.rest["why"]) == ("y", IN_NO_TRANSACTION)


def test_transactions_whose_markers_cannot_be_paired_are_counted(results: dict[str, CheckResult]) -> None:
    unpaired = results[a_marker_that_the_transaction_log_does_not_account_for.__name__]
    assert unpaired.coverage["committed"] == 2
