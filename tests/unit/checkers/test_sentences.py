# ruff: noqa: E501 (each sentence is on one line)
from typing import Any

import pytest

from checkers.anomalies.offset_output_mismatch import NOT_COVERED
from checkers.anomalies.torn_transaction import IN_SEVERAL
from checkers.checking.stored_runs import with_wording
from checkers.registry import STORE_CHECKERS
from reports.findings_text import first_example_sentence as first_sentence
from tests.support.findings import findings_of
from tests.support.synthetic_store import REPROCESSED_INPUT, operation, record

T3 = operation(3, outcome="fail", asked="abort")
T7 = operation(7, "payments-1.0")
X = record(17, value="x=1")
STATE = {"topic": "__transaction_state", "partition": 4, "offset": 90, "epoch": 2}
INPUT = {"topic": "purchases", "partition": 1, "offset": 812}
STEP = {"records": [X, record(20, value="x=4")], "reader": T7}
SET_BACK = "the committed offset of group shop for purchases/1 went back from 816 to 812"
UNMARKED = (
    "a transaction of shop-2 is complete (CompleteAbort at __transaction_state/4 offset 90), but invoices/3 has no "
    "marker of it"
)
LATER = "committed by the marker at offset 20, which is that of a later transaction"
STEPPED = "payments-1.0:7 went from x=1 at invoices/3 offset 17 to x=4 at invoices/3 offset 20"
WENT_BACK = "payments-1.0:7 received x=1 at invoices/3 offset 17, and then x=4 at invoices/3 offset 20"
SENT = {"records": [X, record(12, value="x=2")], "operations": [T3, T7]}
SENT_BACK = "shop-2.0:3 sent x=1 at invoices/3 offset 17 first, but what its process sent later is x=2 at invoices/3 offset 12"
KNOWN = [name for checker in STORE_CHECKERS for name in checker.anomalies]


def sentence(anomaly: str, example: dict[str, Any]) -> str:
    """Return the sentence as a report shows it."""
    findings = findings_of(1, [example])
    return first_sentence(anomaly, with_wording(anomaly, findings) if anomaly in KNOWN else findings)


EXAMPLES: dict[str, list[tuple[dict[str, Any], str]]] = {
    "lost-write": [
        (
            {"record": X, "operation": T7, "log_holds": "another value", "finally_read": None},
            "x=1 at invoices/3 offset 17 was acknowledged to payments-1.0:7, but the log holds another value there",
        ),
        (
            {"record": X, "operation": T7, "log_holds": "it", "finally_read": False},
            "x=1 at invoices/3 offset 17 was acknowledged to payments-1.0:7, but the final reader read past it and did not receive it",
        ),
    ],
    "duplicate": [
        (
            {"operation": T7, "value": "x=1", "records": [X, record(19, value="x=1")]},
            "payments-1.0:7 sent x=1 once, but it is stored at invoices/3 offset 17 and invoices/3 offset 19",
        )
    ],
    "aborted-read": [
        (
            {"record": X, "operation": T3, "reader": T7 | {"role": "worker", "n": 0}},
            "payments-1.0:7 read x=1 at invoices/3 offset 17, which shop-2.0:3 wrote and then aborted",
        )
    ],
    "dirty-read": [
        (
            {"record": X | {"fate": "open", "marker_offset": None}, "reader": T7, "early_ms": None},
            "payments-1.0:7 read x=1 at invoices/3 offset 17, which is still open",
        ),
        (
            {"record": X, "reader": T7, "early_ms": 41.5},
            "payments-1.0:7 read x=1 at invoices/3 offset 17, 41.5 ms before its marker was written",
        ),
    ],
    "torn-transaction": [
        (
            {"operation": T7, "records": [], "why": IN_SEVERAL},
            "payments-1.0:7 was one transaction, but the transaction log has it as several transactions",
        ),
        (
            {"operation": T7, "fates": ["commit", "abort"], "records": [X, record(18, fate="abort")]},
            "payments-1.0:7 was one transaction, but invoices/3 offset 17 is committed by the marker at offset 22 and invoices/3 offset 18 is aborted by the marker at offset 23",
        ),
        (
            {"operation": T7, "fates": ["commit", "open"]},
            "payments-1.0:7 was one transaction, but some of its records are committed and some of its records are still open",
        ),
    ],
    "lost-commit": [
        (
            {
                "operation": T7,
                "aborted_records": [X],
                "gone_records": [],
                "aborted_offsets": [],
                "gone_offsets": None,
            },
            "payments-1.0:7 got the answer that its commit had succeeded, but x=1 at invoices/3 offset 17 is aborted",
        ),
        (
            {"operation": T7, "aborted_records": [record(n, value=f"x={n}") for n in range(20)]},
            "payments-1.0:7 got the answer that its commit had succeeded, but x=0 at invoices/3 offset 0 is aborted, x=1 at invoices/3 offset 1 is aborted and 18 more of the first 20",
        ),
        (
            {"operation": T7, "gone_offsets": [{"topic": "purchases", "partition": 1, "committed": 816}]},
            "payments-1.0:7 got the answer that its commit had succeeded, but its offset of purchases/1 up to 816 is gone",
        ),
    ],
    "ghost-commit": [
        (
            {"operation": T3, "told": "it had not happened", "records": [X], "offsets": []},
            "x=1 at invoices/3 offset 17 of shop-2.0:3 is committed, but its worker asked for an abort",
        ),
        (
            {
                "operation": T7
                | {"asked": "commit", "error": "UNKNOWN_MEMBER_ID (abortable): Failed to commit"},
                "told": "it had not happened",
                "records": [X],
            },
            "x=1 at invoices/3 offset 17 of payments-1.0:7 is committed, but its worker got the answer that the commit had failed (UNKNOWN_MEMBER_ID)",
        ),
        (
            {
                "operation": T7,
                "told": "nothing: the commit was never invoked",
                "records": [],
                "offsets": [{"topic": "purchases", "partition": 1, "committed": 816}],
            },
            "the offset purchases/1 up to 816 of payments-1.0:7 is committed, but its worker never asked for the commit",
        ),
    ],
    "offset-output-mismatch": [
        (
            {"operation": T7, "input": INPUT, "record": X, "why": NOT_COVERED},
            "invoices/3 offset 17 comes from input purchases/1 offset 812, but payments-1.0:7 committed no offset of that partition",
        ),
        (
            {
                "operation": T7,
                "input": INPUT,
                "record": X,
                "offsets": [{"topic": "purchases", "partition": 1, "first": 813, "committed": 816}],
                "why": NOT_COVERED,
            },
            "invoices/3 offset 17 comes from input purchases/1 offset 812, but payments-1.0:7 committed purchases/1 from 813 up to 816",
        ),
        (
            {
                "operation": T7,
                "records": [X | {"fate": "abort", "marker_offset": None}],
                "offsets": [{"topic": "purchases", "partition": 1, "committed": 816, "fate": "commit"}],
            },
            "in payments-1.0:7 the outputs and the committed offsets do not match: invoices/3 offset 17 is aborted and its offset of purchases/1 up to 816 is committed",
        ),
        (
            {
                "operation": T7,
                "input": INPUT,
                "record": None,
                "why": "the offsets cover an input that no output names",
            },
            "in payments-1.0:7 the offsets cover an input that no output names: purchases/1 offset 812",
        ),
    ],
    "reprocessed-input": [
        (
            REPROCESSED_INPUT,
            "input purchases/1 offset 812 took effect twice: invoices/3 offset 417 by shop-2.0:60 and invoices/3 offset 431 by shop-2.1:3",
        ),
        (
            {"input": INPUT, "group": "shop", "operations": [T3, T7]},
            "input purchases/1 offset 812 took effect twice: in shop-2.0:3 and in payments-1.0:7",
        ),
    ],
    "lost-input": [
        (
            {
                "input": INPUT,
                "slot": "invoice",
                "group": "shop",
                "output_topic": "invoices",
                "operations": [T3],
            },
            "group shop went past input purchases/1 offset 812, but its output invoice is missing in invoices; shop-2.0:3 had tried to write it",
        ),
        (
            {
                "input": INPUT,
                "slot": "invoice",
                "group": "shop",
                "output_topic": "invoices",
                "operations": [],
                "records": [
                    {"topic": "invoices", "partition": 2, "offset": 40, "fate": "abort", "marker_offset": 41}
                ],
                "passed_by": {"topic": "__consumer_offsets", "partition": 4, "offset": 68, "fate": "commit"},
            },
            "group shop went past input purchases/1 offset 812, but its output invoice is missing in invoices; invoices/2 offset 40 is aborted by the marker at offset 41",
        ),
        (
            {"input": INPUT, "group": "shop", "passed_by": T7 | {"offset": 90, "committed": 813}},
            "group shop went past input purchases/1 offset 812 by payments-1.0:7, but an expected output is missing",
        ),
    ],
    "group-offset-regression": [
        (
            {"group": "shop", "input": INPUT, "committed": 812, "committed_before": 816, "record": {"op": 7}},
            SET_BACK,
        ),
        (
            {
                "group": "shop",
                "input": INPUT,
                "committed": 812,
                "committed_before": 816,
                "record": {"op": 7, "marker_offset": 19, "operation": {"op": 7, "name": "shop-1.0:2"}},
                "record_before": {"op": 9, "marker_offset": 19, "operation": {"op": 9, "name": "shop-1.0:4"}},
            },
            f"{SET_BACK}, by shop-1.0:2, whose offset commit arrived late, in the transaction of shop-1.0:4",
        ),
    ],
    "phantom": [
        ({"record": X}, "x=1 at invoices/3 offset 17 is visible, but no process announced it"),
        (
            {"record": X, "input": INPUT | {"fate": "abort"}, "why": "its input is not visible"},
            "x=1 at invoices/3 offset 17 is visible, but it names input purchases/1 offset 812, which is aborted",
        ),
    ],
    "corrupt": [
        (
            {"record": X, "operation": T7},
            "the content of x=1 at invoices/3 offset 17 is not what payments-1.0:7 sent",
        ),
        (
            {"record": X, "operation": T7, "input": INPUT},
            "the content of x=1 at invoices/3 offset 17 is not what input purchases/1 offset 812 must lead to",
        ),
    ],
    "unseen": [
        (
            {"record": X, "operation": T7},
            "x=1 at invoices/3 offset 17 was acknowledged to payments-1.0:7, but readers read to the end and did not receive it",
        )
    ],
    "zombie-write": [
        (
            {"record": X, "epoch": 2, "epoch_before": 3},
            "x=1 at invoices/3 offset 17 of epoch 2 was committed above epoch 3 of the same producer",
        ),
        (
            {"operation": T3, "own_init": {"op": 1}, "other_init": T7},
            "shop-2.0:3 was committed after payments-1.0:7 had taken over its transactional id",
        ),
    ],
    "hanging-transaction": [
        (
            {"record": X, "last_offset": 19, "producer_id": 4001, "epoch": 2, "transactional_id": "shop-2"},
            "x=1 at invoices/3 offset 17, written by shop-2 (producer 4001, epoch 2), is still open, and read-committed consumers stop before it",
        ),
        (
            {
                "record": {"topic": "__consumer_offsets", "partition": 5, "offset": 14},
                "producer_id": 1,
                "epoch": 0,
            },
            "the record at __consumer_offsets/5 offset 14, written by producer 1, epoch 0, is still open, and OffsetFetch answers UNSTABLE_OFFSET_COMMIT for its partitions",
        ),
    ],
    "epoch-regression": [
        (
            {"record": X, "record_before": record(14), "producer_id": 4001, "epoch": 2, "epoch_before": 3},
            "the record at invoices/3 offset 17 of producer 4001 has epoch 2, but that producer had epoch 3 at invoices/3 offset 14 before",
        )
    ],
    "sequence-violation": [
        (
            {"record": X, "producer_id": 4001, "epoch": 2, "sequence": 7, "sequence_due": 5},
            "the batch at invoices/3 offset 17 of producer 4001 begins with sequence 7, but 5 was expected",
        )
    ],
    "transaction-state-violation": [
        (
            {
                "record": STATE,
                "transactional_id": "shop-2",
                "state": "CompleteAbort",
                "state_before": "PrepareCommit",
            },
            "shop-2 went from PrepareCommit to CompleteAbort (__transaction_state/4 offset 90), but CompleteAbort may not follow PrepareCommit",
        )
    ],
    "stuck-completion": [
        (
            {
                "record": STATE,
                "transactional_id": "shop-2",
                "state": "PrepareCommit",
                "partitions": [{"topic": "invoices", "partition": 3}],
            },
            "shop-2 was still in state PrepareCommit (__transaction_state/4 offset 90) at the end, and invoices/3 had no marker yet",
        )
    ],
    "unmarked-partition": [
        (
            {
                "place": {"topic": "invoices", "partition": 3},
                "transactional_id": "shop-2",
                "markers": 4,
                "completions": 5,
            },
            "invoices/3 has fewer markers (4) than complete transactions (5) of shop-2",
        ),
        (
            {
                "record": X | {"fate": "commit", "marker_offset": 20},
                "place": {"topic": "invoices", "partition": 3},
                "transactional_id": "shop-2",
                "completion": STATE | {"state": "CompleteAbort"},
            },
            f"{UNMARKED}: x=1 at invoices/3 offset 17 is {LATER}",
        ),
    ],
    "replica-divergence": [
        (
            {
                "record": X,
                "replicas": [
                    {"broker": 1, "crc": 8, "last_offset": 19},
                    {"broker": 2, "crc": 9, "last_offset": 19},
                ],
                "lacking": [3],
            },
            "at invoices/3 offset 17 the replicas differ: broker 1 has checksum 8 up to offset 19, broker 2 has checksum 9 up to offset 19 and broker 3 has nothing",
        )
    ],
    "contended-id": [
        (
            {"operation": T7, "other_init": T3, "own_init": {"op": 1}, "transactional_id": "shop-2"},
            "payments-1.0:7 initialised shop-2 again, after shop-2.0:3 had initialised it",
        )
    ],
    "undue-fencing": [
        (
            {
                "operation": T7 | {"error": "_FENCED (fatal)"},
                "own_init": {"op": 1},
                "transactional_id": "shop-2",
            },
            "payments-1.0:7 was fenced (_FENCED (fatal)), but no other producer had initialised shop-2 and no time-out had passed",
        )
    ],
    "stalled": [
        (
            {
                "group": "g",
                "still_s": 49.2,
                "bound_s": 47.0,
                "from_s": 21.0,
                "to_s": 70.2,
                "committed": True,
                "fault": "kill-broker",
                "input": INPUT,
            },
            "group g committed nothing for 49.2 s after kill-broker (the bound is 47.0 s), until 70.2 s, though input purchases/1 offset 812 was waiting",
        ),
        (
            {
                "group": "g",
                "still_s": 60.0,
                "bound_s": 47.0,
                "to_s": 81.0,
                "committed": False,
                "input": INPUT,
            },
            "group g committed nothing for 60.0 s (the bound is 47.0 s), and still nothing at 81.0 s, though input purchases/1 offset 812 was waiting",
        ),
    ],
    "read-above-lso": [
        (
            {"record": X, "record_open": record(12, value="x=0", fate="open"), "reader": T7},
            "payments-1.0:7 read x=1 at invoices/3 offset 17, above x=0 at invoices/3 offset 12, which is still open at the end",
        )
    ],
    "vanished": [
        (
            {"record": X, "reader": T7},
            "payments-1.0:7 read x=1 at invoices/3 offset 17, but the final reader read past it and did not receive it",
        )
    ],
    "inconsistent-offsets": [
        (
            {
                "place": {"topic": "invoices", "partition": 3, "offset": 17},
                "records": [X, record(17, value="x=2")],
            },
            "invoices/3 offset 17 was seen with different values: x=1 and x=2",
        )
    ],
    "precommitted-read": [
        (
            {"record": X, "operation": T7},
            "payments-1.0:7 received x=1 at invoices/3 offset 17, which it had sent itself",
        )
    ],
    "poll-skip": [(STEP | {"skipped": 2}, f"{STEPPED} and skipped 2 between them")],
    "int-poll-skip": [(STEP | {"skipped": 2}, f"{STEPPED} and skipped 2 between them")],
    "nonmonotonic-poll": [(STEP, WENT_BACK)],
    "int-nonmonotonic-poll": [(STEP, WENT_BACK)],
    "nonmonotonic-send": [(SENT, SENT_BACK)],
    "int-nonmonotonic-send": [(SENT, SENT_BACK)],
    "stale-offset": [
        (
            {"group": "shop", "input": INPUT, "committed": 816, "reader": T7, "operation": T3},
            "payments-1.0:7 began at input purchases/1 offset 812, but shop-2.0:3 had already committed up to 816",
        )
    ],
    "overlapping-commit": [
        (
            {"group": "shop", "input": INPUT, "shared": 4, "operations": [T3, T7]},
            "shop-2.0:3 and payments-1.0:7 both committed input purchases/1 offset 812 (4 offsets in both ranges)",
        )
    ],
    "premature-offset": [
        (
            {"operation": T7, "given_to": 811, "inputs_not_given": 4},
            "payments-1.0:7 committed an offset beyond 4 inputs that its process had never received",
        )
    ],
    "aggregate-mismatch": [
        (
            {"output_topic": "sums", "key": "north", "state": 4, "due": 7, "inputs": 2},
            "key north in topic sums: the last sum is 4, but its 2 inputs add up to 7",
        ),
        (
            {
                "output_topic": "totals",
                "key": "north",
                "inputs": 2,
                "record": record(19, value=None, content="north: 4"),
                "input": INPUT | {"due": [{"topic": "totals", "key": "north", "content": "north: 7"}]},
            },
            "key north in topic totals: the last one is the record at invoices/3 offset 19 and holds north: 4, but north: 7 was expected after 2 inputs",
        ),
        (
            {
                "output_topic": "totals",
                "key": "north",
                "inputs": 2,
                "record": None,
                "input": INPUT
                | {
                    "due": [
                        {"topic": t, "key": k, "content": f"{k}: 7"}
                        for t, k in (("a", "north"), ("totals", "a"), ("totals", "north"))
                    ]
                },
            },
            "key north in topic totals: there is no record, but north: 7 was expected after 2 inputs",
        ),
        (
            {
                "output_topic": "totals",
                "inputs": 0,
                "record": record(19, value=None, content="4"),
            },
            "no key in topic totals: the last one is the record at invoices/3 offset 19 and holds 4, but no input leads to it",
        ),
        (
            {
                "output_topic": "totals",
                "key": "x",
                "inputs": 0,
                "record": record(19, value=None, content="x: 4"),
            },
            "key x in topic totals: the last one is the record at invoices/3 offset 19 and holds x: 4, but no input leads to it",
        ),
    ],
    "order-violation": [
        (
            {"key": "k", "slot": "invoice", "input": INPUT, "records": [X, record(19, value="x=0")]},
            "for key k, x=0 at invoices/3 offset 19 is above x=1 at invoices/3 offset 17, but it comes from the earlier input purchases/1 offset 812",
        )
    ],
}


def test_every_anomaly_of_stored_runs_has_an_example_in_this_file() -> None:
    assert set(EXAMPLES) == set(KNOWN)


@pytest.mark.parametrize("anomaly", KNOWN)
def test_a_sentence_describes_a_finding(anomaly: str) -> None:
    for example, words in EXAMPLES[anomaly]:
        assert sentence(anomaly, example) == words


def test_a_record_with_the_number_of_an_operation_is_joined_to_it_in_the_example() -> None:
    records = [X | {"op": 40}, record(19) | {"op": 41}]
    words = sentence(
        "reprocessed-input", {"input": INPUT, "records": records, "operations": [T7 | {"op": 41}]}
    )
    assert words.endswith("invoices/3 offset 17 by operation 40 and invoices/3 offset 19 by payments-1.0:7")


@pytest.mark.parametrize("anomaly", [*KNOWN, "unknown-anomaly"])
@pytest.mark.parametrize(
    "example",
    [
        {},
        {"record": None, "operation": None, "reader": None, "input": None},
        {"record": {}, "operation": {}, "records": [], "inputs": [{}], "reader": {}},
        {"record": 7, "operation": "T1", "records": "none", "input": [1, 2], "offsets": 3},
        {
            "record": {"topic": ["a"], "partition": "p", "offset": {}, "fate": 9, "value": b"\x00"},
            "reader": 5,
        },
        {"operation": {"name": 4, "call_ns": "soon", "error": ["e"], "commit_ns": None}},
    ],
)
def test_any_field_may_be_absent_or_strange(anomaly: str, example: dict[str, Any]) -> None:
    words = sentence(anomaly, example)
    assert words
    assert words.isprintable()


def test_the_sentence_of_an_unknown_anomaly_lists_its_example() -> None:
    words = sentence("unknown-anomaly", {"record": X, "operation": T7, "lag": 12})
    assert words == "unknown-anomaly: x=1 at invoices/3 offset 17, payments-1.0:7 and lag 12"
