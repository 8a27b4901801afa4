"""The reference checker in plain Python: verdicts, malformed histories, and generated histories."""

from random import Random

import pytest

from tests.reference.generate import PLANTABLE, bent, random_history, small, to_edn, to_jsonl
from tests.reference.history import Malformed
from tests.reference.jepsen import ALWAYS_ALLOWED, findings, verdict
from tests.reference.written import history

SENT = ("9 ok x1@0", "9 ok x2@1", "9 ok x3@2")
READS_ALL = "0 ok ?x1@0,2@1,3@2"


def test_a_correct_history_is_valid() -> None:
    assert verdict(history(*SENT, READS_ALL)) == (True, {}, set())


def test_a_skip_is_allowed_only_if_the_process_subscribes() -> None:
    skip = ("0 ok ?x1@0", "0 ok ?x3@2")
    assert verdict(history(*SENT, READS_ALL, "1 ok assign x", "1 ok ?x1@0", "1 ok ?x3@2"))[0] is False
    assert verdict(history(*SENT, "5 ok subscribe x", *skip, "1 ok ?x2@1")) == (
        True,
        {"poll-skip": 1, "G-single-realtime": 1},
        {"poll-skip", "G-single-realtime"},
    )
    assert verdict(history(*SENT, "5 ok subscribe x", READS_ALL, "1 ok ?x1@0 ?x3@2"))[0] is False


def test_an_anomaly_can_be_allowed_by_name() -> None:
    events = history("0 ok x1@0", "0 ok y1@0", "1 ok ?x1@0")
    assert verdict(events) == (False, {"unseen": 1}, set())
    assert verdict(events, ["unseen"]) == (True, {"unseen": 1}, {"unseen"})


def test_a_history_without_reads_is_unknown_unless_an_anomaly_is_proved() -> None:
    assert verdict([]) == ("unknown", {}, set())
    assert verdict(history("0 ok x1@0", "1 info ?x1@0")) == ("unknown", {"unseen": 1}, set())
    assert verdict(history("0 ok x1@0", "0 ok x1@1"))[0] is False


def test_a_record_of_a_poll_that_is_not_ok_is_no_phantom() -> None:
    read = ("0 ok x1@0", "1 ok ?x1@0")
    for kind in ("info", "fail"):
        assert verdict(history(*read, f"2 {kind} ?x9@9")) == (True, {}, set())
        assert "phantom" in findings(history(*read, f"2 {kind} ?x9@9", "3 ok ?x9@9"))


def test_a_number_and_a_string_of_its_digits_are_the_same_key() -> None:
    events = history("0 ok x1@0", "1 ok ?x1@0")
    events[0]["value"][0][1] = events[1]["value"][0][1] = 5
    events[3]["value"] = [["poll", {"5": [[0, 1]]}]]
    assert verdict(events) == (True, {}, set())


def test_a_rebalance_explains_only_anomalies_within_an_operation() -> None:
    lines = (*SENT, "0 ok ?x1@0 ?x3@2", "0 ok ?x1@0")
    assert {"int-poll-skip", "nonmonotonic-poll"} <= findings(history(*lines)).keys()
    for log in ([{"keys": ["x"]}], ["x"]):
        found = findings(history(*lines, **{"rebalance-log": log}))
        assert "nonmonotonic-poll" in found
        assert "int-poll-skip" not in found


def test_a_read_uncommitted_poll_is_no_aborted_read() -> None:
    lines = ("0 fail x1@0", "1 ok ?x1@0")
    assert "aborted-read" not in findings(history(*lines, isolation="read_uncommitted"))
    assert "aborted-read" in findings(history(*lines, isolation="read_committed"))


def test_events_of_the_nemesis_are_ignored() -> None:
    events = history("0 ok x1@0", "1 ok ?x1@0")
    kill = {"process": "nemesis", "type": "info", "f": "kill-broker", "value": None}
    assert verdict([kill, *events, kill]) == (True, {}, set())


def test_operations_of_an_unknown_kind_are_ignored() -> None:
    events = history("0 ok x1@0", "0 ok ?x1@0", "1 ok ?x9@9 x2@1")
    for event in events[-2:]:
        event["f"] = "debug-topic-partitions"
    assert verdict(events) == (True, {}, set())


def test_a_send_polls_nothing_and_a_poll_sends_nothing() -> None:
    events = history("0 ok x1@0", "0 ok ?x1@0", "1 ok ?x9@9 x2@1")
    for event in events[-2:]:
        event["f"] = "send"
    assert findings(events) == {"unseen": {("x", 2)}}
    for event in events[-2:]:
        event["f"] = "poll"
    assert findings(events) == {"phantom": {("x", 9)}}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (("0 ( x1", "0 ( x2"), "line 2"),
        (("0 ok x1@0", "0 ok) x2@1"), "line 3"),
        (("0 ( x1", "0 ok) x2@1"), "line 2: other sends"),
    ],
)
def test_a_process_that_does_not_alternate_is_an_error(lines: tuple[str, ...], message: str) -> None:
    with pytest.raises(Malformed, match=message):
        findings(history(*lines))


def test_a_completion_of_another_kind_than_its_invocation_is_an_error() -> None:
    events = history("0 ok ?")
    events[1]["f"] = "txn"
    with pytest.raises(Malformed, match="line 2: `txn` completes what was invoked as `poll`"):
        findings(events)


def test_a_negative_offset_is_unknown() -> None:
    assert verdict(history("0 ok x1@-1", "0 ok x2@-1", "1 ok ?x1@0,2@1")) == (True, {}, set())


@pytest.mark.parametrize("seed", range(40))
def test_a_correct_broker_shows_only_allowed_anomalies(seed: int) -> None:
    rng = Random(seed)
    valid, counts, allowed = verdict(random_history(rng, rng.choice([5, 15, 60]), set()))
    assert valid is True
    assert counts.keys() <= allowed <= ALWAYS_ALLOWED | {"poll-skip", "nonmonotonic-poll"}


@pytest.mark.parametrize("name", PLANTABLE)
def test_a_planted_anomaly_is_found(name: str) -> None:
    missed = [seed for seed in range(20) if name not in findings(random_history(Random(seed), 10, {name}))]
    assert not missed


def test_all_anomalies_can_be_planted_at_once() -> None:
    for seed in range(5):
        assert findings(random_history(Random(seed), 30, set(PLANTABLE))).keys() == set(PLANTABLE)


def test_the_same_seed_gives_the_same_history() -> None:
    def once() -> str:
        rng = Random(7)
        return to_jsonl(bent(rng, random_history(rng, 20, set(PLANTABLE)), 5))

    assert once() == once()


def test_bent_histories_are_well_formed() -> None:
    for seed in range(30):
        rng = Random(seed)
        verdict(bent(rng, random_history(rng, 10, set()), 8))


def test_small_histories_are_many_and_begin_with_the_smallest() -> None:
    texts = [to_jsonl(events) for events in small()]
    assert len(texts) == len(set(texts)) < 30_000
    assert texts[0].count("\n") == 2


def test_a_history_is_written_as_json_lines_and_as_edn() -> None:
    events = history("0 ok x1@0 ?", "1 ok ?x1@0", "1 ok assign x")
    assert to_jsonl(events).splitlines()[1] == (
        '{"index":1,"time":1000000,"process":0,"f":"txn","type":"ok","value":[["send","x",[0,1]],["poll"]]}'
    )
    assert to_edn(events).splitlines()[3:] == [
        '{:index 3, :time 3000000, :process 1, :f :poll, :type :ok, :value [[:poll {"x" [[0 1]]}]]}',
        '{:index 4, :time 4000000, :process 1, :f :assign, :type :invoke, :value ["x"]}',
        '{:index 5, :time 5000000, :process 1, :f :assign, :type :ok, :value ["x"]}',
    ]
