"""The failure scenarios of docs/scenarios.md (`make chaos`).

A scenario is one command with an aimed fault. The fault must have acted, and the logs must show the state at which it
was aimed. A test reads this proof from the tables of the run.
"""

from pathlib import Path
from typing import Any

import pytest

import fencepost
from fencepost.api import Result
from tests.support.scenarios import (
    allowed_by_anomaly,
    batch_and_marker,
    count_copies,
    fault_start_ms,
    last_transaction_before,
    overtaking_transactions,
    rows,
    transaction_during,
    written_but_not_acknowledged,
)

SEED = 3


def run(folder: Path, **options: Any) -> Result:
    """Start a run, and assert that every fault acted."""
    result = fencepost.run(seed=SEED, store=str(folder), **options)
    faults = result.verdict["faults"]
    assert faults and all(fault["acted"] for fault in faults), result.explain()
    return result


# 1: a send whose acknowledgement is lost, and its retry


def test_a_retry_of_an_idempotent_producer_writes_no_second_record(tmp_path: Path) -> None:
    result = run(tmp_path, workload="idempotent", nemesis=["lose-answers"], time_limit=25)
    assert result.valid is True and "duplicate" not in allowed_by_anomaly(result), result.explain()
    lost_responses = written_but_not_acknowledged(result)
    assert lost_responses and set(count_copies(result, lost_responses).values()) == {1}


def test_a_retry_of_a_producer_without_idempotence_writes_a_second_record(tmp_path: Path) -> None:
    result = run(tmp_path, workload="at-least-once", nemesis=["lose-answers"], time_limit=25)
    assert result.valid is True and allowed_by_anomaly(result).get("duplicate") is True, result.explain()
    lost_responses = written_but_not_acknowledged(result)
    assert lost_responses and max(count_copies(result, lost_responses).values()) > 1


# 2: the producer crashes before, during and after the commit


@pytest.mark.parametrize("step", ["before-commit", "while-committing", "after-commit"])
def test_a_crash_of_the_producer_around_its_commit_loses_and_repeats_nothing(
    step: str, tmp_path: Path
) -> None:
    result = run(tmp_path, nemesis=[f"kill-worker@{step}"], time_limit=25)
    assert result.valid is True and not allowed_by_anomaly(result), result.explain()
    for fault in result.verdict["faults"]:
        assert fault["details"]["step"] == step
        if step == "after-commit":
            assert last_transaction_before(result, fault)["outcome"] == "ok"
            continue
        op = transaction_during(result, fault)
        assert op["return_ns"] is None  # its client got no response
        assert (op["commit_ns"] is None) is (step == "before-commit")


# 3: the producer hangs, is replaced, and continues as a zombie


def test_a_zombie_is_fenced(tmp_path: Path) -> None:
    result = run(tmp_path, nemesis=["pause-worker@shop:after-send"], time_limit=25)
    assert result.valid is True and not allowed_by_anomaly(result), result.explain()
    for fault in result.verdict["faults"]:
        op = transaction_during(result, fault)
        assert op["fenced"] and op["outcome"] != "ok"
        assert overtaking_transactions(result, op)


def test_a_zombie_that_is_not_fenced_repeats_inputs(tmp_path: Path) -> None:
    result = run(tmp_path, defect="random-transactional-id", time_limit=25)
    assert result.valid is False and "reprocessed-input" in allowed_by_anomaly(result), result.explain()
    ops = [transaction_during(result, fault) for fault in result.verdict["faults"]]
    assert any(op["outcome"] == "ok" and overtaking_transactions(result, op) for op in ops)


# 4: the consumer of the output crashes between its side effect and its offset commit


@pytest.mark.parametrize(("defect", "valid"), [(None, True), ("position-apart", False)])
def test_an_effect_is_repeated_unless_the_database_keeps_the_position(
    defect: str | None, valid: bool, tmp_path: Path
) -> None:
    result = run(
        tmp_path,
        workload="cdc",
        defect=defect,
        nemesis=["kill-worker@projector:after-commit"],
        time_limit=25,
    )
    assert result.valid is valid, result.explain()
    assert set(allowed_by_anomaly(result)) <= {"reprocessed-input", "aggregate-mismatch"}


# 5: the transaction coordinator dies with a transaction in Ongoing, in PrepareCommit, in PrepareAbort


@pytest.mark.parametrize(
    ("aim", "state", "end"),
    [
        ("ongoing", "Ongoing", None),
        ("prepare-commit", "PrepareCommit", "CompleteCommit"),
        ("prepare-abort", "PrepareAbort", "CompleteAbort"),
    ],
)
def test_the_next_coordinator_completes_a_prepared_transaction(
    aim: str, state: str, end: str | None, tmp_path: Path
) -> None:
    result = run(tmp_path, nemesis=[f"kill-txn-coordinator@{aim}"], time_limit=60)
    assert result.valid is True and not allowed_by_anomaly(result), result.explain()
    log = rows(result, "transactions")
    for fault in result.verdict["faults"]:
        assert fault["details"]["state"] == state
        at_ms = fault_start_ms(result, fault)
        states = [row for row in log if row["transactional_id"] == fault["details"]["transactional_id"]]
        states.sort(key=lambda row: (row["log_tp"], row["log_offset"]))
        n = max(n for n, row in enumerate(states) if row["update_ms"] <= at_ms)
        assert states[n]["state"] == state  # the last state that the dead coordinator wrote
        if end is not None:  # and the first state that the next coordinator wrote
            assert states[n + 1]["state"] == end


# 6: the leader of an output partition dies before and after the markers


@pytest.mark.parametrize(("aim", "is_before"), [("before-markers", True), ("after-markers", False)])
def test_the_next_leader_writes_or_has_the_marker(aim: str, is_before: bool, tmp_path: Path) -> None:
    result = run(tmp_path, nemesis=[f"kill-broker@{aim}"], time_limit=35)
    assert result.valid is True and not allowed_by_anomaly(result), result.explain()
    for fault in result.verdict["faults"]:
        at_ms, topic_partition = fault_start_ms(result, fault), fault["details"]["partition"]
        op = transaction_during(result, fault) if is_before else last_transaction_before(result, fault)
        record, marker = batch_and_marker(result, op, topic_partition)
        if is_before:  # the next leader wrote the marker
            assert marker["max_timestamp_ms"] >= at_ms and marker["leader_epoch"] > record["leader_epoch"]
        else:  # the dead leader wrote the marker, and the next leader has it
            assert marker["max_timestamp_ms"] <= at_ms and marker["leader_epoch"] == record["leader_epoch"]


# 7: the group coordinator dies between send_offsets and commit


def test_offsets_in_a_transaction_survive_their_coordinator(tmp_path: Path) -> None:
    result = run(tmp_path, nemesis=["kill-group-coordinator@after-offsets"], time_limit=35)
    assert result.valid is True and not allowed_by_anomaly(result), result.explain()
    for fault in result.verdict["faults"]:
        assert fault["details"]["step"] == "after-offsets"
        op, at_ms = transaction_during(result, fault), fault_start_ms(result, fault)
        stored = [row for row in rows(result, "offsets") if row["op"] == op["op"]]
        assert stored and all(row["transactional"] and row["timestamp_ms"] <= at_ms for row in stored)
        assert op["commit_ns"] is None or op["commit_ns"] >= 1e9 * fault["start_s"]


# The idempotent producer alone


def test_a_restart_of_an_idempotent_producer_repeats_its_last_batch(tmp_path: Path) -> None:
    result = run(tmp_path, workload="idempotent", nemesis=["kill-worker@after-send"], time_limit=25)
    assert result.valid is True and allowed_by_anomaly(result) == {"reprocessed-input": True}, (
        result.explain()
    )


def test_a_restart_of_a_broker_repeats_nothing(tmp_path: Path) -> None:
    result = run(tmp_path, workload="idempotent", nemesis=["kill-broker"], time_limit=30)
    assert result.valid is True and "duplicate" not in allowed_by_anomaly(result), result.explain()
