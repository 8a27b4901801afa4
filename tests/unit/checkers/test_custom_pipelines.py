"""If the evidence of a pipeline without journals is incomplete, the run is unknown and has no findings."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from checkers.anomalies.offset_output_mismatch import IN_NO_TRANSACTION, OFFSETS_OUTSIDE
from checkers.checking.custom_pipelines import BY_MARKERS, BY_OFFSETS, CONTENTS
from checkers.checking.stored_runs import StoredRun, check_runs, with_wording
from harness.results.verdict import AnomalyFindings, CheckResult
from reports.findings_text import first_example_sentence as sentence
from tests.support.histories import WALL_MS, History
from tests.support.stored_tables import OFFSETS, write_store

Draw = Callable[[History], None]


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
    (an_output_that_names_no_input, {"phantom"}, set()),
    (nothing_is_expected, set(), {"expected"}),
)
"""Each history with the expected anomalies, and with a part of the reason why the run is unknown."""


@pytest.fixture(scope="module")
def results(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, CheckResult]:
    histories = []
    for run, (draw, _, _) in enumerate(CASES):
        history = History()
        draw(history)
        histories.append((run, history))
    folder = write_store(tmp_path_factory.mktemp("store") / "runs", histories, log=True)
    runs = [
        StoredRun(run, folder, WALL_MS, blind=True, had_log=True, healed=True) for run in range(len(CASES))
    ]
    by_run = check_runs(spark, runs)
    return {draw.__name__: by_run[run] for run, (draw, _, _) in enumerate(CASES)}


@pytest.mark.parametrize(("draw", "anomalies", "unknown"), CASES, ids=[draw.__name__ for draw, _, _ in CASES])
def test_missing_evidence_makes_no_finding(
    draw: Draw, anomalies: set[str], unknown: set[str], results: dict[str, CheckResult]
) -> None:
    result = results[draw.__name__]
    assert result.anomalies.keys() == anomalies, result.anomalies
    assert result.broken.keys() == unknown, result.broken
    assert (BY_MARKERS in result.not_checked) == (BY_MARKERS in unknown)


def test_an_undescribed_topic_is_in_not_checked(spark: SparkSession, tmp_path: Path) -> None:
    history = History()
    history.feed(1)
    history.transact(0)
    whole(history)
    folder = write_store(tmp_path / "runs", [(1, history), (2, history)], log=True)
    runs = [
        StoredRun(
            run, folder, WALL_MS, without_journals=True, blind=True, had_log=True, healed=True, topics=topics
        )
        for run, topics in ((1, frozenset({"a", "x"})), (2, frozenset(history.topics)))
    ]
    by_run = check_runs(spark, runs)
    assert "does not name y:" in by_run[1].not_checked[CONTENTS].text
    assert CONTENTS not in by_run[2].not_checked


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


def test_a_plain_offset_past_the_last_record_is_found(spark: SparkSession, tmp_path: Path) -> None:
    drawn = [
        last_record(2, 0),
        last_record(0, 2),
        last_record(1, 2),
        last_record(1, 2, sums=1),
        last_record(2, 2),
        last_record(1, 10**12),  # any program may commit such an offset: none of them is listed
    ]
    folder = write_store(tmp_path / "runs", list(enumerate(drawn)), log=True)
    runs = [
        StoredRun(run, folder, WALL_MS, blind=True, had_log=True, healed=True) for run in range(len(drawn))
    ]
    by_run = check_runs(spark, runs)
    counts = [{name: one.count for name, one in by_run[run].anomalies.items()} for run in range(len(drawn))]
    outside = {"offset-output-mismatch": 1}
    assert counts == [{}, outside, outside, {}, {}, outside]
    (example,) = by_run[2].anomalies["offset-output-mismatch"].examples
    assert (example.inputs[0].get("offset"), example.rest["why"]) == (1, OFFSETS_OUTSIDE)
    assert sentence(
        "offset-output-mismatch",
        with_wording("offset-output-mismatch", AnomalyFindings(1, examples=[example])),
    ) == (
        "group g committed a/0 up to 2 outside any transaction and went past input a/0 offset 1, but the output of "
        "that input is written in a transaction"
    )


def test_offsets_are_compared_where_only_last_records_are_checked(
    spark: SparkSession, tmp_path: Path
) -> None:
    drawn = [
        last_record(2, 0),
        last_record(2, 0, expects="x"),
    ]  # of the other outputs none was held against an offset
    folder = write_store(tmp_path / "runs", list(enumerate(drawn)), log=True)
    runs = [
        StoredRun(run, folder, WALL_MS, blind=True, had_log=True, healed=True) for run in range(len(drawn))
    ]
    by_run = check_runs(spark, runs)
    assert [BY_OFFSETS in by_run[run].not_checked for run in range(len(drawn))] == [False, True]


def with_a_plain_record() -> History:
    """An input, its output in a transaction, and a record of y outside any."""
    history = History()
    history.feed(1)
    history.transact(0)
    history.append("y", None)
    whole(history)
    return history


def test_a_plain_record_where_stages_write_in_transactions_is_a_mismatch(
    spark: SparkSession, tmp_path: Path
) -> None:
    unread = with_a_plain_record()  # it may be the sentinel
    unread.alter("records", lambda row: None)
    drawn = [with_a_plain_record(), with_a_plain_record(), unread]
    folder = write_store(tmp_path / "runs", list(enumerate(drawn)), log=True)
    topics = [frozenset({"x", "y"}), frozenset({"x"}), frozenset({"x", "y"})]
    runs = [
        StoredRun(
            run, folder, WALL_MS, without_journals=True, blind=True, had_log=True, transactional_topics=of
        )
        for run, of in enumerate(topics)
    ]
    by_run = check_runs(spark, runs)
    found = [by_run[run.run].anomalies.get("offset-output-mismatch") for run in runs]
    assert found[0] is not None and found[1:] == [None, None]
    (example,) = found[0].examples
    assert (example.first_record.get("topic"), example.rest["why"]) == ("y", IN_NO_TRANSACTION)


def test_transactions_whose_markers_cannot_be_paired_are_counted(results: dict[str, CheckResult]) -> None:
    unpaired = results[a_marker_that_the_transaction_log_does_not_account_for.__name__]
    assert unpaired.coverage["committed"] == 2
