"""Outputs that do not name their inputs are joined to them by a correlation key."""

from collections.abc import Callable, Mapping
from functools import partial

import pytest
from one_job import WantedRun, want

from harness.results.verdict import CheckResult
from tests.support.histories import OFFSETS, TRANSACTIONS, History, Row

Results = Mapping[WantedRun, CheckResult]
CASES: dict[str, tuple[Callable[[History], None], dict[str, int], str]] = {}


def found(
    topics: str = "a", **anomalies: int
) -> Callable[[Callable[[History], None]], Callable[[History], None]]:
    """Register a history with the anomalies that a check must find."""

    def register(draw: Callable[[History], None]) -> Callable[[History], None]:
        named = {name.replace("_", "-"): many for name, many in anomalies.items()}
        CASES[draw.__name__] = (draw, named, topics)
        return draw

    return register


def join(h: History, correlation_key: Callable[[int], str] = str) -> None:
    """Outputs say what they are about instead of naming their inputs. `about`: what those of an input are about."""

    def output(row: Row) -> Row:
        if not row["inputs"]:
            return row
        (at,) = (one["offset"] for one in row["inputs"])
        named = {"correlation_key": correlation_key(at), "content": f"k: output of {at}"}
        return row | {"value": None, "output_name": None, "inputs": [], **named}

    h.alter("records", output)
    h.alter(
        "expected",
        lambda row: (
            row | {"correlation_key": correlation_key(row["offset"]), "content": f"k: due of {row['offset']}"}
        ),
    )
    h.alter("partitions", lambda row: row | {"compacted": False})
    h.alter("stages", lambda row: row | {"journaled": False})


@found()
def each_input_has_its_output(h: History) -> None:
    h.feed(2)
    h.transact(0)
    h.transact(1)
    join(h)


@found(reprocessed_input=1, group_offset_regression=1)
def an_output_too_many(h: History) -> None:
    h.feed(2)
    h.transact(0)
    h.transact(1)
    h.transact(0, pid=2)
    join(h)


@found(lost_input=1)
def an_input_without_an_output(h: History) -> None:
    h.feed(2)
    h.transact(0)
    h.transact(1, to="")
    join(h)


@found()
def an_aborted_attempt_counts_for_nothing(h: History) -> None:
    h.feed(1)
    h.transact(0, outcome="fail")
    h.transact(0)
    join(h)


@found()
def two_inputs_that_are_alike_have_two_outputs(h: History) -> None:
    h.feed(2)
    h.transact(0, 1)
    join(h, lambda offset: "same")


@found(lost_input=1)
def two_inputs_that_are_alike_and_one_output(h: History) -> None:
    h.feed(2)
    h.transact(0, 1, output_inputs=[0])
    join(h, lambda offset: "same")


@found(reprocessed_input=1, group_offset_regression=1)
def two_inputs_that_are_alike_and_three_outputs(h: History) -> None:
    h.feed(2)
    h.transact(0, 1)
    h.transact(1, pid=2, claim=(0, 1))
    join(h, lambda offset: "same")


@found(phantom=1)
def an_output_that_no_input_accounts_for(h: History) -> None:
    h.feed(1)
    h.transact(0)
    h.append("x", None, -1, digest=7)
    join(h)
    stray = len(h.entries["x"]) - 1
    h.alter(
        "records",
        lambda row: (
            row | {"correlation_key": "?"} if (row["tp"], row["offset"]) == (h.tp["x"], stray) else row
        ),
    )


@found(corrupt=1)
def an_output_that_holds_something_else(h: History) -> None:
    h.feed(1)
    h.transact(0)
    join(h)
    h.alter("records", lambda row: row | {"digest": 8} if row.get("correlation_key") is not None else row)


@found(offset_output_mismatch=1)
def an_output_whose_offset_is_in_another_transaction(h: History) -> None:
    h.feed(1)
    op = h.transact(0, offsets_fate="")
    h.commit_offset(1, op, 2)
    h.append_marker(OFFSETS, 2, "commit")
    h.log_transaction(2, [OFFSETS])
    join(h)


@found(torn_transaction=1, offset_output_mismatch=1)
def a_transaction_of_which_one_record_is_aborted(h: History) -> None:
    h.feed(1)
    h.transact(0, to="xy", fates={"y": "abort"})
    join(h)


@found(torn_transaction=1, offset_output_mismatch=1)
def one_on_a_cluster_that_others_had_used_before(h: History) -> None:
    h.feed(2)
    h.transact(0)
    h.transact(1, to="xy", fates={"y": "abort"})
    join(h)
    internal = {h.tp[OFFSETS], h.tp[TRANSACTIONS]}
    h.alter("replicas", lambda row: row | {"log_start": 1} if row["tp"] in internal else row)


@found(reprocessed_input=1, lost_input=1)
def one_output_twice_and_the_other_never(h: History) -> None:
    h.feed(1)
    h.rows["expected"].append(h.rows["expected"][0] | {"output_name": "x#2", "digest": 8})
    h.transact(0, output_inputs=[0, 0])
    join(h)


@found(topics="ab")
def inputs_that_are_alike_in_two_partitions_and_outputs_crosswise(h: History) -> None:
    h.feed(1)
    h.feed(1, "b")
    h.transact(0, source="b", pid=2)
    h.transact(0)
    join(h, lambda offset: "same")


@found(corrupt=1)
def of_several_outputs_the_one_that_holds_something_else(h: History) -> None:
    h.feed(1)
    h.rows["expected"].append(h.rows["expected"][0] | {"output_name": "x#2", "digest": 8})
    h.transact(0, output_inputs=[0, 0])
    join(h)
    h.alter(
        "records",
        lambda row: row | {"digest": 9} if row.get("correlation_key") and row["offset"] == 0 else row,
    )


@found()
def a_marker_that_was_written_again(h: History) -> None:
    h.feed(2)
    h.transact(0)
    h.append_marker("x", 1, "commit")
    h.append_marker(OFFSETS, 1, "commit")
    h.transact(1)
    join(h)


@found()
def where_it_is_not_known_which_offsets_are_of_a_transaction_it_lacks_none(h: History) -> None:
    h.feed(1)
    h.transact(0)
    h.append(OFFSETS, None, 1)
    h.append_marker(OFFSETS, 1, "commit")
    join(h)


@found(torn_transaction=1, offset_output_mismatch=1, lost_input=1, phantom=1)
def a_marker_that_was_written_again_hides_no_torn_transaction(h: History) -> None:
    h.feed(1)
    h.transact(0, to="yx", fates={"x": "abort"})
    h.append_marker("y", 1, "commit")
    join(h)


@found(torn_transaction=1)
def markers_that_say_otherwise_than_the_transaction_log(h: History) -> None:
    h.feed(1)
    h.transact(0, fate="abort", state="CompleteCommit")
    join(h)


@found(lost_write=1)
def a_committed_output_that_the_final_reader_was_not_given(h: History) -> None:
    h.feed(1)
    h.transact(0)
    join(h)
    h.alter("polls", lambda row: None if (row["tp"], row["offset"]) == (h.tp["x"], 0) else row)


@found(offset_output_mismatch=1)
def an_offset_beyond_the_end_of_its_partition(h: History) -> None:
    h.feed(1)
    h.transact(0, claim=(0, 50))
    join(h)


@found()
def an_offset_above_a_marker_alone(h: History) -> None:
    h.feed(1)
    h.append_marker("a", 9, "commit")
    h.transact(0, claim=(0, 2))
    join(h)


def drawn(draw: Callable[[History], None], topics: str = "a") -> History:
    history = History(inputs=topics)
    draw(history)
    return history


BLIND = {"blind": True, "without_journals": True}
RUNS = {
    name: want(partial(drawn, draw, topics), correlated=True, **BLIND)
    for name, (draw, _, topics) in CASES.items()
}


@pytest.fixture
def results(result_of: Results) -> dict[str, CheckResult]:
    return {name: result_of[run] for name, run in RUNS.items()}


@pytest.mark.parametrize("name", CASES)
def test_joined_outputs_are_checked_as_if_they_named_their_inputs(
    name: str, results: dict[str, CheckResult]
) -> None:
    result = results[name]
    assert {anomaly: one.count for anomaly, one in result.anomalies.items()} == CASES[name][1], (
        result.anomalies
    )
    assert all(sentence for one in result.anomalies.values() for sentence in one.sentences)


@pytest.mark.parametrize(
    ("case", "anomaly", "words"),
    [
        (
            an_output_that_holds_something_else,
            "corrupt",
            ": it holds k: output of 0, but k: due of 0 was expected",
        ),
        (an_input_without_an_output, "lost-input", "; k: due of 1 was expected"),
    ],
)
def test_an_example_has_the_actual_and_the_expected_output(
    case: Callable[[History], None], anomaly: str, words: str, results: dict[str, CheckResult]
) -> None:
    (sentence,) = results[case.__name__].anomalies[anomaly].sentences
    assert sentence.endswith(words)


def test_a_cause_is_named_within_one_transaction(results: dict[str, CheckResult]) -> None:
    anomalies = results[a_transaction_of_which_one_record_is_aborted.__name__].anomalies
    assert anomalies["offset-output-mismatch"].because == "torn-transaction"
    assert anomalies["torn-transaction"].because is None


def nothing_expected(h: History) -> None:
    each_input_has_its_output(h)
    h.alter("expected", lambda row: None)


NOTHING_EXPECTED = {
    correlated: want(partial(drawn, nothing_expected), correlated=correlated, **BLIND)
    for correlated in (True, False)
}


def test_without_expectations_there_are_no_findings(result_of: Results) -> None:
    result = result_of[NOTHING_EXPECTED[True]]
    assert not result.anomalies
    assert any("expected is empty" in reason.text for reason in result.broken.values())


def test_without_expectations_the_unchecked_anomalies_are_listed(result_of: Results) -> None:
    not_checked = result_of[NOTHING_EXPECTED[False]].not_checked
    lacking = {name for name, reason in not_checked.items() if reason.code == "no-expectation"}
    assert lacking >= {"lost-input", "reprocessed-input", "phantom", "corrupt"}


def half_processed(h: History) -> None:
    h.feed(2)
    h.transact(0)
    join(h)


def half_processed_outside_kafka(h: History) -> None:
    """The stage keeps its offsets outside Kafka."""
    half_processed(h)
    ungrouped(h)


def ungrouped(h: History) -> None:
    for table in ("stages", "expected"):
        h.alter(table, lambda row: row | {"group": None})


UNPROCESSED = {
    grouped: want(partial(drawn, draw), correlated=True, **BLIND)
    for grouped, draw in ((True, half_processed), (False, half_processed_outside_kafka))
}


@pytest.mark.parametrize("grouped", [True, False])
def test_unprocessed_inputs_make_a_run_unknown(grouped: bool, result_of: Results) -> None:
    result = result_of[UNPROCESSED[grouped]]
    assert not result.anomalies
    left = "1 input of stage s led to no output, and it is not known whether the stage has taken them"
    short = "group g of stage s has committed a/0 up to offset 1, and the last input there is at offset 1"
    texts = [reason.text for reason in result.broken.values()]
    assert texts[0] == left
    assert [text.startswith(short) for text in texts[1:]] == ([True] if grouped else [])


def only_the_second_processed(h: History) -> None:
    h.feed(2)
    h.transact(1)
    join(h)
    ungrouped(h)


DRAINED = {
    drained: want(partial(drawn, only_the_second_processed), correlated=True, drained=drained, **BLIND)
    for drained in (True, False)
}


@pytest.mark.parametrize("drained", [True, False])
def test_a_drained_stage_without_a_group_processed_all_below_its_last_output(
    drained: bool, result_of: Results
) -> None:
    result = result_of[DRAINED[drained]]
    found = {name: one.count for name, one in result.anomalies.items()}
    assert found == ({"lost-input": 1} if drained else {})
    assert drained or result.broken
