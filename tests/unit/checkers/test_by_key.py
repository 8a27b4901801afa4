"""What a task makes of the rows of its keys."""

import numpy as np
import pytest

from checkers.histories.arrays import codes, order_by
from checkers.histories.by_key import by_key, deal
from checkers.histories.records import NONE, OperationRows, find_jumps, make_records
from harness.record.history_form import FAIL, INFO, OK, OPEN
from tests.support.micro import Row, micro_table, poll_row, send_row


def found(kind: str, *rows: Row) -> list[Row]:
    """The rows that the kernel returns of one kind."""
    batches = list(by_key(deal(iter(micro_table(*rows).to_batches()))))
    return [row[kind] for batch in batches for row in batch.to_pylist() if row[kind] is not None]


def test_a_key_that_no_task_could_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [send_row(1, value, value) for value in range(3)]
    monkeypatch.setattr("checkers.histories.by_key.MOST", 3)
    assert found("counted", *rows)
    monkeypatch.setattr("checkers.histories.by_key.MOST", 2)
    with pytest.raises(ValueError, match="more than 2 sends and reads"):
        found("counted", *rows)


def test_numbers_that_are_too_large_to_pack_are_sorted_all_the_same() -> None:
    one, other = np.array([2**62, -(2**62), 2**62]), np.array([5, 0, -(2**62)])
    assert order_by(one, other).tolist() == [1, 2, 0]
    assert order_by(np.array([1, 0, 1]), np.array([5, 9, -5])).tolist() == [1, 2, 0]
    assert order_by(np.array([0, 1, 1]), np.array([3 * 2**61, 3 * 2**61, 0])).tolist() == [0, 2, 1]


def test_packed_numbers_are_in_the_order_of_their_columns() -> None:
    rng = np.random.default_rng(7)
    for low, high in ((-5, 5), (3, 9), (-(2**20), -(2**19)), (0, 1)):
        columns = [rng.integers(low, high, 200), rng.integers(-3, 4, 200), rng.integers(low, high, 200)]
        ordered = [column[order_by(*columns)].tolist() for column in columns]
        assert list(zip(*ordered, strict=True)) == sorted(zip(*map(np.ndarray.tolist, columns), strict=True))
    assert order_by(np.array([2**62 + 1, 2**62 - 1])).tolist() == [1, 0]


def test_rows_have_one_number_if_all_columns_are_equal() -> None:
    assert codes(np.array([9, 9, 9, 4]), np.array([1, 2, 1, 1])).tolist() == [0, 1, 0, 2]


def test_an_ordinary_record_is_not_remarkable() -> None:
    assert found("step", send_row(1, 5, 0), poll_row(2, 5, 0)) == []
    assert found("counted", send_row(1, 5, 0), poll_row(2, 5, 0)) == [
        {"run": 0, "records": 1, "read": 1, "in_place_of_another": 0}
    ]


def test_a_record_without_a_read_is_remarkable() -> None:
    (step,) = found("step", send_row(1, 5, 0), send_row(3, 6, 4), poll_row(2, 6, 4))
    assert (step["value"], step["due"], step["ok_read"], step["highest"], step["bound"]) == (
        5,
        True,
        False,
        1,
        2,
    )


def test_the_offset_of_an_uncommitted_send_does_not_count() -> None:
    rows = OperationRows(micro_table(send_row(1, 5, 3, INFO), send_row(2, 6, -1), send_row(3, 8, 4)))
    assert rows.offset.tolist() == [NONE, NONE, 4]
    assert make_records(rows).index.tolist() == [0, 0, 1]


def test_the_writer_is_the_last_completion_or_else_an_open_operation() -> None:
    records = make_records(
        OperationRows(micro_table(send_row(9, 5, None, OPEN), send_row(1, 5, None, FAIL), send_row(3, 5, 0)))
    )
    assert (records.writer.tolist(), records.writer_outcome.tolist()) == ([3], [OK])
    assert make_records(OperationRows(micro_table(send_row(9, 5, None, OPEN)))).writer.tolist() == [9]


def test_the_writer_does_not_depend_on_the_order_of_rows() -> None:
    ops = np.random.default_rng(7).permutation(np.arange(1, 200))
    assert make_records(
        OperationRows(micro_table(*(send_row(int(op), 5) for op in ops)))
    ).writer.tolist() == [199]


def test_the_index_of_a_record_is_counted_in_its_own_key() -> None:
    records = make_records(
        OperationRows(micro_table(*(send_row(op, op, op, key=op % 2) for op in (2, 3, 4, 5, 6))))
    )
    assert records.index.tolist() == [1, 1, 2, 2, 3]


def test_two_values_at_one_offset_have_no_index_but_later_records_have() -> None:
    records = make_records(
        OperationRows(micro_table(poll_row(1, 5, 0), poll_row(2, 6, 0), poll_row(3, 8, 9)))
    )
    assert (records.clash.tolist(), records.index.tolist()) == ([True, True, False], [0, 0, 2])


def test_a_poll_of_an_own_record_is_remarkable() -> None:
    rows = [send_row(1, 5, 0), send_row(4, 5, 0), poll_row(1, 5, 0), poll_row(2, 5, 0)]
    assert make_records(OperationRows(micro_table(*rows))).own.tolist() == [False, False, True, False]


def test_a_step_of_more_than_one_is_a_jump_and_only_moves_count() -> None:
    rows = OperationRows(
        micro_table(
            *(
                poll_row(op, op, op, outcome, process=1)
                for op, outcome in ((1, OK), (2, FAIL), (3, OK), (4, OK))
            )
        )
    )
    at, before, inside = find_jumps(rows, make_records(rows), rows.polls, rows.outcome == OK)
    assert (rows.op[at].tolist(), rows.op[before].tolist(), inside.tolist()) == ([3], [1], [False])


def test_sends_of_others_are_no_jump_but_a_step_back_is() -> None:
    rows = OperationRows(
        micro_table(
            send_row(1, 1, 1, process=1),
            send_row(2, 2, 2),
            send_row(3, 3, 3, process=1),
            send_row(4, 4, 0, process=1),
        )
    )
    at, _, _ = find_jumps(rows, make_records(rows), rows.sends, rows.outcome == OK)
    assert rows.op[at].tolist() == [4]


def test_a_repeated_send_is_a_step_back_and_a_single_one_is_not() -> None:
    for rows, steps in (((1,), []), ((1, 1), [(2, 1)])):
        sends = OperationRows(
            micro_table(*(send_row(op, value, value, process=1) for op, value in enumerate(rows, 1)))
        )
        at, before, _ = find_jumps(sends, make_records(sends), sends.sends, sends.outcome == OK)
        assert list(zip(sends.op[at].tolist(), sends.op[before].tolist(), strict=True)) == steps
    poll = OperationRows(micro_table(poll_row(1, 1, 1)))
    assert not len(find_jumps(poll, make_records(poll), poll.polls, poll.outcome == OK)[0])


def test_the_steps_of_another_process_come_before_nothing() -> None:
    rows = OperationRows(
        micro_table(poll_row(1, 1, 1, process=1), poll_row(2, 2, 2, process=2), poll_row(3, 3, 3, process=2))
    )
    at, _, _ = find_jumps(rows, make_records(rows), rows.polls, rows.outcome == OK)
    assert at.tolist() == []
