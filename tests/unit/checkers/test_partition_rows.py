"""What is known of each partition and run, from the small recorded tables."""

from collections import Counter
from typing import Any

import pytest

from checkers.stored.partition_tables import rows_of_topics, rows_of_tps
from checkers.stored.small_tables import rows_of_journals, rows_of_runs
from checkers.stored.tally import Tally
from harness.model.vocabulary import Isolation, Role

NOTHING = Tally({}, {}, {}, {})
PARTITION = {"run": 1, "tp": 0, "topic": "x", "partition": 0, "internal": False, "compacted": False}
RC, RU = Isolation.READ_COMMITTED.value, Isolation.READ_UNCOMMITTED.value


def replica(broker: int, **more: Any) -> dict[str, Any]:
    row = {"run": 1, "tp": 0, "broker": broker, "leader": broker == 1, "damaged": None}
    return {**row, "log_start": 0, "log_end": 9, "high_watermark": 9, **more}


def end(isolation: str, role: str | None, **more: Any) -> dict[str, Any]:
    return {
        "run": 1,
        "tp": 0,
        "isolation": isolation,
        "role": role,
        "first": 2,
        "next": 9,
        "sentinel_offset": 8,
        **more,
    }


def stage(**more: Any) -> dict[str, Any]:
    row = {"run": 1, "stage": "s", "group": "g", "in_topic": "x", "ordered": True, "positions": None}
    return {**row, "guarantee": None, **more}


def one_tp(*, replicas: Any = (), ends: Any = (), stages: Any = ()) -> dict[str, Any]:
    (row,) = rows_of_tps([PARTITION], replicas, ends, stages)
    return dict(row)


def test_an_unknown_partition_has_no_log_and_no_reader() -> None:
    row = one_tp()
    assert (row["logged"], row["followers"], row["is_input"], row["rc_end"]) == (False, 0, False, False)
    assert (row["log_end"], row["rc_first"], row["ru_next"], row["allows_duplicates"]) == (
        None,
        None,
        None,
        None,
    )


def test_a_reader_began_at_the_log_start_where_that_is_higher_and_the_log_is_whole() -> None:
    ends = [
        end(RC, Role.FINAL.value),
        end(RU, None, sentinel_offset=None),
        end(RC, Role.OBSERVER.value, first=0),
    ]
    row = one_tp(replicas=[replica(1, log_start=4)], ends=ends)
    assert (row["rc_first"], row["rc_end"], row["ru_first"], row["ru_end"]) == (4, True, 4, False)
    assert one_tp(replicas=[replica(1, log_start=4, damaged="torn")], ends=ends)["rc_first"] == 2


def test_a_follower_is_unreadable_only_below_its_high_watermark() -> None:
    torn = {"damaged": "torn"}
    assert one_tp(replicas=[replica(1), replica(2, **torn)])["unreadable"] is None
    row = one_tp(
        replicas=[replica(1), replica(3, **torn, log_end=8), replica(2, **torn, high_watermark=None)]
    )
    assert row["unreadable"] == {"broker": 2, "log_end": 9, "high_watermark": None}
    assert row["followers"] == 2


def test_of_two_leaders_the_damaged_one_counts() -> None:
    both = [replica(1, damaged="torn", log_end=3), replica(2, leader=True)]
    assert (one_tp(replicas=both)["logged"], one_tp(replicas=both)["log_end"]) == (False, 3)


def test_a_topic_keeps_order_if_all_of_its_stages_promise_it() -> None:
    assert one_tp(stages=[stage(), stage()])["ordered"]
    assert not one_tp(stages=[stage(), stage(ordered=None)])["ordered"]
    row = one_tp(stages=[stage(), stage(stage="t", positions="each", guarantee="at-least-once")])
    assert (row["each"], row["is_input"], row["allows_duplicates"]) == (True, True, ["t"])


def test_a_topic_is_whole_if_none_of_its_partitions_is_compacted_or_begins_late() -> None:
    whole = one_tp(ends=[end(RC, None, first=0)])
    late, compacted = one_tp(ends=[end(RC, None)]), {**whole, "compacted": True}
    sends = Tally({}, {}, {(1, "sends"): {"x": Counter(rows=1)}}, {})
    for rows, expected in (([whole], True), ([whole, late], False), ([compacted], False)):
        (topic,) = rows_of_topics(rows, sends)
        assert (topic["topic_whole"], topic["announced"], topic["named"]) == (expected, True, False)
    assert rows_of_topics([{**whole, "internal": True}], sends) == []


def test_a_run_is_judgeable_with_its_whole_transaction_log_alone() -> None:
    run = {"run": 1, "whole": True, "rested_ms": 5.0}
    log = {**one_tp(replicas=[replica(1)]), "topic": "__transaction_state"}
    raw = Tally({(1, "transactions"): Counter(rows=1)}, {}, {}, {(1, "ended"): 7})
    for tps, tally, expected in (([log], raw, True), ([], raw, False), ([log], NOTHING, False)):
        (row,) = rows_of_runs([run], tps, [], tally)
        assert row["judgeable"] is expected
    (row,) = rows_of_runs([run], [log], [], raw)
    assert row["end_ms"] == 7
    assert rows_of_runs([run], [log], [], NOTHING)[0]["end_ms"] == 5.0


NAMED = Counter(rows=1, within=1)


@pytest.mark.parametrize(
    ("group", "counts", "compacted", "named"),
    [
        ("g", NAMED, False, ["g"]),
        ("g", NAMED, True, []),
        ("g", NAMED + Counter(rows=1, unnamed=1), False, []),
        ("g", NAMED + Counter(rows=1, outside=1), False, []),
        ("g", NAMED + Counter(rows=1), False, ["g"]),  # outside, and it names no operation
        ("g", Counter(rows=1), False, []),
        ("other", Counter(rows=1, unnamed=1), False, ["g"]),  # all of g are gone
    ],
)
def test_an_absent_commit_is_noticed_if_each_commit_names_its_operation(
    group: str, counts: Counter[str], compacted: bool, named: list[str]
) -> None:
    log = {**one_tp(replicas=[replica(1)]), "topic": "__consumer_offsets"}
    raw = Tally({}, {}, {(1, "offsets"): {group: counts}}, {})
    run = {"run": 1, "whole": True, "rested_ms": None}
    (row,) = rows_of_runs([run], [{**log, "compacted": compacted}], [stage()], raw)
    assert (row["commits_logged"], row["named_groups"]) == (True, named)


def test_a_journal_is_unbroken_if_all_of_its_operations_are_stored() -> None:
    row = {"run": 1, "journal": "j", "missing_lines": 0, "torn_lines": 1, "ops": 2}
    raw = Tally({}, {}, {(1, "ops"): {"j": Counter(rows=2)}}, {})
    (here,), (gone,) = rows_of_journals([row], raw), rows_of_journals([row], NOTHING)
    assert (here["unbroken"], here["intact"], gone["unbroken"], gone["counted"]) == (True, False, False, 0)
