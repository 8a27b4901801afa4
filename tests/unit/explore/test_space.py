"""The space of cases: which cases a recorded program has, and which rule each of them is."""

from collections import Counter

import pytest

from fencepost.explore.space import CaseKind, Request, cases_of, requests_of
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


def record(seen_ns: int, api: str, *errors: str) -> RequestRecord:
    return RequestRecord(
        seen_ns, 1, "client:w0", api, 1, seen_ns, None, 10, seen_ns, ("tasks-0",), errors=errors
    )


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
    assert case.rule is not None and case.rule.action is Action.HOLD and case.stop == "1.end"
    assert [select.api for select in case.rule.release.after] == ["EndTxn", "AddPartitionsToTxn", "Produce"]


def test_a_copy_is_not_repeated_by_its_client() -> None:
    case = named("CC duplicate EndTxn#1 > Produce#3")
    assert case.rule is not None
    assert [select.api for select in case.rule.release.after] == ["AddPartitionsToTxn", "Produce"]


def test_the_last_place_is_after_the_last_response() -> None:
    case = named("CC hold EndTxn#2 > end")
    assert case.rule is not None
    assert case.rule.release.after == (Selector("EndTxn"), Selector("EndTxn", "response"))


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
