"""The failure scenarios of docs/scenarios.md, each aimed and each with its proof. Asked for by `make chaos`.

A scenario is one command. Its fault must have acted, and the logs must show the state that it names: what a test
asserts of them is read from the tables of the run.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import fencepost
from fencepost.api import Result
from harness.settings.test_toml import Plan

SEED = 3


def run(folder: Path, **options: Any) -> Result:
    """One run, of which every fault that was asked for has acted."""
    result = fencepost.run(seed=SEED, store=str(folder), **options)
    faults = result.verdict["faults"]
    assert faults and all(fault["acted"] for fault in faults), result.explain()
    return result


def found(result: Result) -> Mapping[str, bool]:
    """By anomaly, whether it is permitted; warnings and consequences aside."""
    told = result.verdict["anomalies"].items()
    return {
        name: body["allowed"] for name, body in told if not body.get("because") and not body.get("warning")
    }


def rows(result: Result, table: str) -> list[dict[str, Any]]:
    path = next(result.folder.glob(f"*/{table}.parquet"))
    return list(pq.read_table(path).to_pylist())


def struck_ms(result: Result, fault: Mapping[str, Any]) -> float:
    """When a fault struck, by the brokers' clock."""
    zero_ms = Plan.load(result.folder / "test.toml").run["wall_ms_at_zero"]
    return float(zero_ms) + 1000 * float(fault["start_s"])


def operations(result: Result, fault: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The transactions and sends of the worker that a fault struck which were under way then."""
    at_ns = 1e9 * fault["start_s"]
    return [
        row
        for row in rows(result, "ops")
        if row["journal"] == fault["details"]["worker"]
        and row["f"] in ("txn", "send")
        and row["call_ns"] <= at_ns
        and (row["return_ns"] is None or row["return_ns"] >= at_ns)
    ]


# 1: a send whose acknowledgement is lost, and its retry


def test_a_retry_of_an_idempotent_producer_writes_no_second_record(tmp_path: Path) -> None:
    result = run(tmp_path, workload="idempotent", nemesis=["lose-answers"], time_limit=25)
    assert result.valid is True and "duplicate" not in found(result), result.explain()


def test_a_retry_of_any_other_producer_writes_a_second_record(tmp_path: Path) -> None:
    result = run(tmp_path, workload="at-least-once", nemesis=["lose-answers"], time_limit=25)
    assert result.valid is True and found(result).get("duplicate") is True, result.explain()


# 2: the producer crashes before, during and after the commit


@pytest.mark.parametrize("step", ["before-commit", "while-committing", "after-commit"])
def test_a_producer_that_crashes_around_its_commit_loses_and_repeats_nothing(
    step: str, tmp_path: Path
) -> None:
    result = run(tmp_path, nemesis=[f"kill-worker@{step}"], time_limit=25)
    assert result.valid is True and not found(result), result.explain()
    for fault in result.verdict["faults"]:
        assert fault["details"]["step"] == step
        states = [row for row in operations(result, fault) if row["f"] == "txn"]
        if step != "after-commit":  # there the transaction has ended before the worker does
            assert states and all(row["return_ns"] is None for row in states)
            assert all((row["commit_ns"] is None) is (step == "before-commit") for row in states)


# 3: the producer hangs, is replaced, and comes back as a zombie


def test_a_zombie_is_fenced(tmp_path: Path) -> None:
    result = run(tmp_path, nemesis=["pause-worker@shop:after-send"], time_limit=25)
    assert result.valid is True and result.verdict["coverage"]["fenced"] >= 1, result.explain()


def test_a_zombie_that_nothing_fences_repeats_what_others_did(tmp_path: Path) -> None:
    result = run(tmp_path, defect="random-transactional-id", time_limit=25)
    assert result.valid is False and "reprocessed-input" in found(result), result.explain()


# 4: the consumer of the output crashes between its side effect and its offset commit


@pytest.mark.parametrize(("defect", "valid"), [(None, True), ("position-apart", False)])
def test_an_effect_is_repeated_unless_the_store_keeps_the_position(
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
    assert set(found(result)) <= {"reprocessed-input", "aggregate-mismatch"}


# 5: the transaction coordinator dies with a transaction in Ongoing, in PrepareCommit, in PrepareAbort


@pytest.mark.parametrize(
    ("aim", "state", "end"),
    [
        ("ongoing", "Ongoing", None),
        ("prepare-commit", "PrepareCommit", "CompleteCommit"),
        ("prepare-abort", "PrepareAbort", "CompleteAbort"),
    ],
)
def test_the_next_coordinator_finishes_what_it_finds(
    aim: str, state: str, end: str | None, tmp_path: Path
) -> None:
    result = run(tmp_path, nemesis=[f"kill-txn-coordinator@{aim}"], time_limit=60)
    assert result.valid is True and not found(result), result.explain()
    log = rows(result, "transactions")
    for fault in result.verdict["faults"]:
        assert fault["details"]["state"] == state
        at_ms = struck_ms(result, fault)
        own = [row for row in log if row["transactional_id"] == fault["details"]["transactional_id"]]
        own.sort(key=lambda row: (row["log_tp"], row["log_offset"]))
        n = max(n for n, row in enumerate(own) if row["update_ms"] <= at_ms)
        assert own[n]["state"] == state  # the last word of the coordinator that died
        if end is not None:  # and the first of the next one
            assert own[n + 1]["state"] == end


# 6: the leader of an output partition dies before and after the markers


@pytest.mark.parametrize(("aim", "before"), [("before-markers", True), ("after-markers", False)])
def test_a_marker_is_written_by_the_next_leader_or_outlives_the_last(
    aim: str, before: bool, tmp_path: Path
) -> None:
    result = run(tmp_path, nemesis=[f"kill-broker@{aim}"], time_limit=35)
    assert result.valid is True and not found(result), result.explain()
    places = {row["tp"]: f"{row['topic']}/{row['partition']}" for row in rows(result, "partitions")}
    batches = rows(result, "batches")
    for fault in result.verdict["faults"]:
        at_ms, named = struck_ms(result, fault), fault["details"]["partition"]
        (op,) = [row for row in operations(result, fault) if row["f"] == "txn"] or [None]
        here = [row for row in batches if places[row["tp"]] == named and row["leader"]]
        if before:
            assert op is not None  # the transaction was open when its leader died
            sent = [
                row
                for row in rows(result, "sends")
                if row["op"] == op["op"] and places.get(row["tp"]) == named
            ]
            last = max(row["offset"] for row in sent)
            own = next(b for b in here if b["base_offset"] <= last <= b["last_offset"])
            marker = next(
                b
                for b in here
                if b["control"] and b["base_offset"] > last and b["producer_id"] == own["producer_id"]
            )
            assert marker["max_timestamp_ms"] >= at_ms and marker["leader_epoch"] > own["leader_epoch"]
        else:
            assert any(b["control"] and b["max_timestamp_ms"] <= at_ms for b in here)


# 7: the group coordinator dies between send_offsets and commit


def test_offsets_survive_their_coordinator_within_a_transaction(tmp_path: Path) -> None:
    result = run(tmp_path, nemesis=["kill-group-coordinator@after-offsets"], time_limit=35)
    assert result.valid is True and not found(result), result.explain()
    for fault in result.verdict["faults"]:
        assert fault["details"]["step"] == "after-offsets"
        (op,) = [row for row in operations(result, fault) if row["f"] == "txn"]
        assert [row for row in rows(result, "offsets") if row["op"] == op["op"]]


# The idempotent producer alone


def test_a_restart_of_an_idempotent_producer_repeats_what_it_had_sent(tmp_path: Path) -> None:
    result = run(tmp_path, workload="idempotent", nemesis=["kill-worker@after-send"], time_limit=25)
    assert result.valid is True and found(result) == {"reprocessed-input": True}, result.explain()


def test_a_restart_of_a_broker_repeats_nothing(tmp_path: Path) -> None:
    result = run(tmp_path, workload="idempotent", nemesis=["kill-broker"], time_limit=30)
    assert result.valid is True and "duplicate" not in found(result), result.explain()
