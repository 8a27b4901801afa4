"""Every case again, checked as if its workers had kept no journals."""

from collections.abc import Mapping

import pytest
from cases import CASES, WARNINGS, Case

from checkers.registry import CHECKERS
from harness.results.verdict import CheckResult

OF_JOURNALS = {name for checker in CHECKERS if "journals" in checker.needs for name in checker.anomalies}

DIFFER = {
    # Outputs whose offsets stand in no transaction are a mismatch: in a whole log nobody has to name them.
    "missing_offsets_are_lost_although_a_plain_commit_names_no_operation": "offset-output-mismatch",
    "offsets_gone_from_a_log_that_names_an_operation_of_no_transaction_are_none": "offset-output-mismatch",
    "missing_offsets_are_no_finding_if_a_transaction_is_unnamed": "offset-output-mismatch",
    # No evidence says where a group began. All inputs are due, because the group started before the first input.
    "an_input_before_the_first_position_of_the_group_is_not_lost": "lost-input",
    "a_beginning_at_no_known_position_is_none": "lost-input",
    "a_group_that_began_at_an_unknown_offset_may_skip_inputs": "lost-input",
    "where_a_member_lost_a_partition_its_group_did_not_begin": "lost-input",
    "an_input_before_the_start_of_its_group_is_no_question": "lost-input",
    "a_group_may_begin_behind_the_start_of_a_planned_partition": "lost-input",
    # Only a journal says that the group had the partition. Its coordinator said that no member had it.
    "a_group_that_stopped_at_the_start_of_an_added_partition_has_not_passed_it_over": "lost-input",
    # It names no input. Its journal may have had it, but the journals are hidden.
    "a_record_of_a_journal_with_a_torn_last_line_is_no_phantom": "phantom",
    # Its offset is beyond the end of the input's partition.
    "an_output_of_an_input_that_a_compacted_topic_holds_no_more_is_none": "offset-output-mismatch",
    # The transaction covers no input of its output. With journals its worker may never have sent an offset.
    "where_all_offsets_were_committed_outside_a_run_is_unknown": "offset-output-mismatch",
    "a_transactional_group_does_not_hide_a_plain_commit_of_another": "offset-output-mismatch",
}
"""Cases whose result is meant to differ without journals."""


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_hidden_journals_cause_no_new_findings(case: Case, blind: Mapping[str, CheckResult]) -> None:
    found = {name for name, anomaly in blind[case.name].anomalies.items() if not anomaly.allowed}
    assert not found & OF_JOURNALS
    if not case.finds.keys() - {*WARNINGS}:
        assert found == {*filter(None, [DIFFER.get(case.name)])}, blind[case.name].anomalies
