"""The states of transactions in the transaction log."""

from cases import case, plain

from tests.support.histories import History

# transaction-state-violation


@case(transaction_state_violation=1)
def a_transaction_that_was_prepared_to_commit_and_aborted_is_a_violation(h: History) -> None:
    plain(h)
    h.log_state(7, "Ongoing", "x")
    h.log_state(7, "PrepareCommit", "x")
    h.log_state(7, "CompleteAbort")


def _unprepared(h: History) -> None:
    """A transaction is complete and was not prepared, in a run that was killed."""
    plain(h)
    h.log_state(7, "Ongoing", "x")
    h.log_state(7, "CompleteAbort")
    h.incomplete = ("the run was killed",)


@case(transaction_state_violation=1, broken=("killed",))
def a_step_that_is_not_allowed_in_a_whole_log_is_a_violation_though_the_run_was_killed(h: History) -> None:
    _unprepared(h)


@case(broken=("killed", "the table transactions holds"))
def a_state_that_the_table_of_a_killed_run_lacks_is_no_violation(h: History) -> None:
    _unprepared(h)
    h.alter("transactions", lambda row: None if row["log_offset"] == 0 else row)


@case(transaction_state_violation=1)
def a_transaction_that_is_complete_without_being_prepared_is_a_violation(h: History) -> None:
    plain(h)
    h.log_state(7, "Empty")
    h.log_state(7, "Ongoing")
    h.log_state(7, "CompleteCommit")


@case(transaction_state_violation=1)
def a_commit_is_not_prepared_twice(h: History) -> None:
    plain(h)
    h.log_transaction(7, ())
    h.log_state(7, "PrepareCommit")
    h.log_state(7, "CompleteCommit")


@case()
def the_life_of_a_transactional_id_is_legal(h: History) -> None:
    plain(h)
    h.log_state(7, "Empty")
    h.log_state(7, "Ongoing", "x")
    h.log_state(7, "Ongoing", "xy")
    h.log_state(7, "PrepareAbort", "xy", epoch=1)
    h.log_state(7, "CompleteAbort", epoch=1)
    h.log_state(7, "Empty", epoch=2)
    h.log_state(7, "Empty", epoch=3)
    h.log_transaction(7, "", "Commit", epoch=3)
    h.log_transaction(7, "", "Abort", epoch=3)
    h.log_state(7, "Tombstone")
    h.log_state(7, "Ongoing")
    h.alter(
        "transactions",
        lambda row: (
            {**row, "producer_id": None, "epoch": None, "tps": None} if row["state"] == "Tombstone" else row
        ),
    )


@case()
def an_abort_of_nothing_raises_the_epoch(h: History) -> None:
    plain(h)
    h.log_transaction(7, ())
    h.log_state(7, "PrepareAbort", epoch=1)
    h.log_state(7, "CompleteAbort", epoch=1)


@case(transaction_state_violation=1)
def an_abort_of_nothing_that_does_not_raise_the_epoch_is_a_violation(h: History) -> None:
    plain(h)
    h.log_transaction(7, ())
    h.log_state(7, "PrepareAbort")
    h.log_state(7, "CompleteAbort")


@case()
def the_first_state_in_the_log_is_not_checked(h: History) -> None:
    plain(h)
    h.log_state(7, "CompleteCommit")


@case()
def two_transactional_ids_have_states_of_their_own(h: History) -> None:
    plain(h)
    for state in ("Ongoing", "PrepareCommit", "CompleteCommit"):
        h.log_state(7, state)
        h.log_state(8, state)


@case()
def a_state_that_is_written_again_is_legal(h: History) -> None:
    plain(h)
    for state in ("Ongoing", "PrepareCommit", "CompleteCommit"):
        h.log_state(7, state)
        h.log_state(7, state)


@case()
def a_state_that_was_not_confirmed_may_be_passed_over(h: History) -> None:
    plain(h)
    h.log_transaction(7, ())
    h.log_state(7, "Ongoing", "x")
    h.log_state(7, "Ongoing", "x")
    h.log_state(7, "Empty", epoch=1)
    h.log_state(7, "Ongoing", epoch=1)
    h.log_state(7, "PrepareCommit", epoch=1)
    h.log_state(7, "PrepareAbort", epoch=2)
    h.log_state(7, "CompleteAbort", epoch=2)


@case()
def two_states_that_were_not_confirmed_may_be_passed_over(h: History) -> None:
    plain(h)
    h.log_transaction(7, ())
    h.log_state(7, "Ongoing", "x")
    h.log_state(7, "Ongoing", "y")
    h.log_state(7, "Empty", epoch=1)
