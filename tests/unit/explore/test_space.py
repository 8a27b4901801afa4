"""The space of cases: which cases a recorded program has, and which rule each of them is."""

import re
from collections import Counter

import pytest

from fencepost.exploration.space import CaseKind, Request, cases_of, pairs_of, requests_of, scope_of
from harness.common.errors import UsageError
from harness.protocol.cases import OVER, Case, CaseOutcome
from harness.protocol.rules import Action, Selector
from harness.record.protocol_journal import RequestRecord

TRANSACTION = (
    ("AddPartitionsToTxn", "first"),
    ("Produce", "first"),
    ("AddPartitionsToTxn", "second"),
    ("Produce", "second"),
    ("AddOffsetsToTxn", "offsets"),
    ("TxnOffsetCommit", "offsets"),
    ("EndTxn", "end"),
)


def two_transactions() -> list[Request]:
    """The requests that librdkafka sends for two transactions."""
    sent = [("InitProducerId", "1.init")]
    sent += [(api, f"{number}.{step}") for number in (1, 2) for api, step in TRANSACTION]
    return [
        Request(api, [name for name, _ in sent[: n + 1]].count(api), step)
        for n, (api, step) in enumerate(sent)
    ]


def named(name: str) -> Case:
    """The case with this name."""
    (case,) = (case for case in cases_of("CC", two_transactions()) if case.name == name)
    return case


def record(seen_ns: int, api: str, *errors: str, returned_ns: int | None = None) -> RequestRecord:
    return RequestRecord(
        seen_ns, 1, "client:w0", api, 1, seen_ns, None, 10, seen_ns, ("tasks-0",),
        errors=errors, returned_ns=returned_ns,
    )  # fmt: skip


def test_each_request_has_each_kind_of_fault_and_each_place_of_a_release() -> None:
    kinds = Counter(case.name.split()[1] for case in cases_of("CC", two_transactions()))
    assert kinds == {
        "hold": 120,
        "duplicate": 135,
        "request-lost": 15,
        "response-lost": 15,
        "response-late": 15,
        "disconnect": 15,
        "error-instead": 75,
        "error-after": 75,
    }


def test_the_names_of_cases_differ() -> None:
    names = Counter(case.name for case in cases_of("CC", two_transactions()))
    assert names.total() == 465 and max(names.values()) == 1


def test_a_held_request_is_released_after_its_repetition_and_all_requests_up_to_the_place() -> None:
    case = named("CC hold EndTxn#1 > Produce#3")
    (fault,) = case.faults
    assert fault.rule.action is Action.HOLD and fault.stop == "1.end"
    assert [select.api for select in fault.rule.release.after] == ["EndTxn", "AddPartitionsToTxn", "Produce"]


def test_a_copy_is_not_repeated_by_its_client() -> None:
    case = named("CC duplicate EndTxn#1 > Produce#3")
    (fault,) = case.faults
    assert [select.api for select in fault.rule.release.after] == ["AddPartitionsToTxn", "Produce"]


def test_the_last_place_is_after_the_last_response() -> None:
    case = named("CC hold EndTxn#2 > end")
    (fault,) = case.faults
    assert fault.rule.release.after == (Selector("EndTxn"), Selector("EndTxn", "response"))


@pytest.mark.parametrize(("all_errors", "least"), [(False, 5), (True, 11)])
def test_each_request_gets_one_error_of_each_class_or_all_errors(all_errors: bool, least: int) -> None:
    cases = list(cases_of("CC", two_transactions(), [CaseKind.ERROR_AFTER], all_errors=all_errors))
    by_request = Counter(case.name.split(" = ")[0] for case in cases)
    assert min(by_request.values()) >= least and len(by_request) == 15


def test_a_request_that_is_sent_again_in_its_step_counts_once() -> None:
    steps = ((0, "1.init"), (10, "1.first"), (20, "1.second"), (40, OVER), (41, "2.first"))
    journal = [
        record(45, "Produce"),
        record(30, "EndTxn"),
        record(11, "AddPartitionsToTxn", "CONCURRENT_TRANSACTIONS"),
        record(1, "InitProducerId"),
    ]
    journal += [
        record(12, "AddPartitionsToTxn"),
        record(13, "Produce"),
        record(21, "AddPartitionsToTxn"),
        record(14, "Metadata"),
    ]
    outcome = CaseOutcome(Case(0, "CC", "CC"), 0, 40, steps)
    assert list(map(str, requests_of(outcome, journal))) == [
        "InitProducerId#1",
        "AddPartitionsToTxn#1",
        "Produce#1",
        "AddPartitionsToTxn#2",
        "EndTxn#1",
    ]


def test_two_requests_of_one_step_that_both_succeed_are_two() -> None:
    steps = ((0, "1.init"), (10, "1.outputs"), (40, OVER))
    journal = [
        record(11, "AddPartitionsToTxn", "CONCURRENT_TRANSACTIONS", returned_ns=12),
        record(13, "AddPartitionsToTxn", "NONE", returned_ns=15),
        record(14, "AddPartitionsToTxn", "NONE", returned_ns=16),
        record(17, "AddPartitionsToTxn", "NONE", returned_ns=18),
    ]
    sent = requests_of(CaseOutcome(Case(0, "cc", "cc"), 0, 40, steps), journal)
    assert [(str(request), request.nth) for request in sent] == [
        ("AddPartitionsToTxn#1", 1),
        ("AddPartitionsToTxn#2", 2),
        ("AddPartitionsToTxn#3", 3),
    ]
    second = next(case for case in cases_of("cc", sent, [CaseKind.REQUEST_LOST]) if "#2" in case.name)
    assert second.faults[0].rule.nth == 2


def test_the_second_fault_of_a_pair_is_on_a_request_behind_the_first() -> None:
    first = named("CC error-instead Produce#3 = UNKNOWN_SERVER_ERROR")
    sent = [
        *two_transactions()[:11],
        Request("EndTxn", 2, "2.second"),
        Request("InitProducerId", 2, "3.init"),
    ]
    pairs = list(pairs_of(first, two_transactions(), sent, [CaseKind.REQUEST_LOST]))
    assert [case.name.partition(" + ")[2] for case in pairs] == [
        "request-lost AddPartitionsToTxn#3",
        "request-lost AddPartitionsToTxn#4",
        "request-lost EndTxn#2",
        "request-lost InitProducerId#2",
    ]
    assert all(case.faults[0] == first.faults[0] and len(case.faults) == 2 for case in pairs)


@pytest.mark.parametrize(
    ("programs", "kinds", "message"),
    [
        (["CX"], ["hold"], "a program has the parts C, c, A, a, B, K, R, as in CC, AC, CA, CKC, not 'CX'"),
        ([""], ["hold"], "not ''"),
        (["CC"], ["holt"], 'did you mean "hold"'),
    ],
)
def test_an_unknown_program_or_kind_is_refused(programs: list[str], kinds: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        scope_of(programs, kinds)


def test_the_second_fault_of_a_pair_can_be_on_an_output_that_was_sent_at_once() -> None:
    recorded = [
        Request("AddPartitionsToTxn", 1, "1.outputs", 1),
        Request("AddPartitionsToTxn", 2, "1.outputs", 2),
        Request("EndTxn", 1, "1.end"),
    ]
    first = next(cases_of("c", recorded, [CaseKind.ERROR_INSTEAD]))
    sent = [recorded[0], Request("AddPartitionsToTxn", 2, "2.outputs", 1), Request("EndTxn", 1, "2.end")]
    pairs = list(pairs_of(first, recorded, sent, [CaseKind.RESPONSE_LATE]))
    assert [
        (case.name.partition(" + ")[2], case.faults[1].stop, case.faults[1].rule.nth) for case in pairs
    ] == [
        ("response-late AddPartitionsToTxn#2", "1.outputs", 1),
        ("response-late EndTxn#1", "2.end", 1),
    ]
