"""Every case again, checked as if its workers had kept no journals."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from cases import CASES, WARNINGS, Case, store
from pyspark.sql import SparkSession

from checkers.checking.stored_runs import check_runs
from checkers.registry import CHECKERS
from harness.results.verdict import CheckResult

OF_JOURNALS = {name for checker in CHECKERS if "journals" in checker.needs for name in checker.anomalies}

DIFFER = {
    # Outputs whose offsets stand in no transaction are a mismatch: in a whole log nobody has to name them.
    "offsets_gone_beside_a_commit_outside_that_names_no_operation_are_a_lost_commit": "offset-output-mismatch",
    "offsets_gone_from_a_log_that_names_an_operation_of_no_transaction_are_none": "offset-output-mismatch",
    "offsets_gone_from_a_log_with_a_transaction_that_nobody_named_are_none": "offset-output-mismatch",
    # Nobody says where a group began: it is taken to owe everything, for it is up before the first input.
    "an_input_before_the_first_position_of_the_group_is_not_lost": "lost-input",
    "a_beginning_at_no_known_position_is_none": "lost-input",
    "a_group_that_committed_and_whose_beginning_nobody_saw_may_have_left_inputs_out": "lost-input",
    "where_a_member_lost_a_partition_its_group_did_not_begin": "lost-input",
    # It names no input, and that its journal may have told of it counts for nothing.
    "a_value_of_a_journal_whose_last_line_is_torn_is_no_phantom": "phantom",
    # Its offset is beyond the end of the input's partition.
    "an_output_of_an_input_that_a_compacted_topic_holds_no_more_is_none": "offset-output-mismatch",
    # The transaction covers no input of its output. With journals its worker may never have sent an offset.
    "where_all_offsets_were_committed_outside_a_run_is_unknown": "offset-output-mismatch",
    "a_group_that_commits_outside_is_not_hidden_by_one_that_commits_within": "offset-output-mismatch",
}
"""What is meant to be judged otherwise."""


@pytest.fixture(scope="module")
def blind(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, CheckResult]:
    """What is said of each case without its journals, by its name."""
    runs = [replace(run, blind=True) for run in store(tmp_path_factory.mktemp("store"))]
    judgements = check_runs(spark, runs)
    return {case.name: judgements[run] for run, case in enumerate(CASES)}


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_hidden_journals_cause_no_new_findings(case: Case, blind: Mapping[str, CheckResult]) -> None:
    found = {name for name, anomaly in blind[case.name].anomalies.items() if not anomaly.allowed}
    assert not found & OF_JOURNALS
    if not case.finds.keys() - {*WARNINGS}:
        assert found == {*filter(None, [DIFFER.get(case.name)])}, blind[case.name].anomalies
