"""The meanings of the clients' errors. librdkafka agrees with the table, and the page is made from it."""

from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from harness.clients import error_table, librdkafka_client
from harness.clients.error_table import JAVA_ROWS, ROWS, ErrorEntry
from harness.clients.interface import ErrorMeaning

PAGE = Path(__file__).resolve().parents[3] / "docs" / "clients.md"
KNOWN = [row for row in ROWS if row.librdkafka and row.code is not None]
NEEDED = {
    "PRODUCER_FENCED",
    "INVALID_PRODUCER_EPOCH",
    "INVALID_TXN_STATE",
    "CONCURRENT_TRANSACTIONS",
    "UNKNOWN_MEMBER_ID",
    "ILLEGAL_GENERATION",
    "FENCED_INSTANCE_ID",
    "STALE_MEMBER_EPOCH",
    "FENCED_MEMBER_EPOCH",
    "UNRELEASED_INSTANCE_ID",
    "UNKNOWN_PRODUCER_ID",
    "INVALID_PRODUCER_ID_MAPPING",
    "TRANSACTION_ABORTABLE",
    "OUT_OF_ORDER_SEQUENCE_NUMBER",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "REQUEST_TIMED_OUT",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "NOT_COORDINATOR",
    "COORDINATOR_NOT_AVAILABLE",
    "UNSTABLE_OFFSET_COMMIT",
    "REBALANCE_IN_PROGRESS",
}
FLAGS = {
    ErrorMeaning.FATAL: {"fatal": True},
    ErrorMeaning.ABORTABLE: {"txn_requires_abort": True},
    ErrorMeaning.RETRIABLE: {"retriable": True},
}


def meaning_of(code: int, **flags: bool) -> ErrorMeaning:
    error = librdkafka_client.classify(KafkaException(KafkaError(code, "words", **flags)))
    assert error is not None
    return error.meaning


@pytest.mark.parametrize("row", KNOWN, ids=lambda row: row.name)
def test_an_error_of_librdkafka_has_the_meaning_of_its_row(row: ErrorEntry) -> None:
    assert row.code is not None
    assert meaning_of(row.code) is row.librdkafka[0]
    for meaning, flags in FLAGS.items():
        fenced = row.librdkafka == (ErrorMeaning.FENCED,)
        assert meaning_of(row.code, **flags) is (ErrorMeaning.FENCED if fenced else meaning)


@pytest.mark.parametrize("row", KNOWN, ids=lambda row: row.name)
def test_a_code_has_the_name_that_librdkafka_gives_it(row: ErrorEntry) -> None:
    code = getattr(KafkaError, row.name, None)
    if code is None:  # newer than this librdkafka, or has another name there
        assert row.name in {"TRANSACTION_ABORTABLE", "NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"} or (
            row.name in {"MSG_SIZE_TOO_LARGE", "COORDINATOR_LOAD_IN_PROGRESS"}
        )
    else:
        assert code == row.code


@pytest.mark.parametrize(
    ("flags", "meaning"), [*((flags, kind) for kind, flags in FLAGS.items()), ({}, ErrorMeaning.UNKNOWN)]
)
def test_an_error_without_a_row_has_the_meaning_of_its_flags_or_is_unknown(
    flags: dict[str, bool], meaning: ErrorMeaning
) -> None:
    assert meaning_of(9_999, **flags) is meaning


def test_a_fatal_error_is_found_as_the_cause_of_a_system_error() -> None:
    error = SystemError("returned a result with an exception set")
    error.__cause__ = KafkaException(KafkaError(KafkaError._FENCED, "words", fatal=True))
    classified = librdkafka_client.classify(error)
    assert classified is not None and classified.meaning is ErrorMeaning.FENCED and classified.ends_client


def test_rows_of_specific_java_classes_come_before_rows_of_base_classes() -> None:
    positions = {row.name: position for position, row in enumerate(JAVA_ROWS)}
    last = ["ApplicationRecoverableException", "RetriableException", "KafkaException"]
    assert [row.name for row in JAVA_ROWS[-3:]] == last
    for special, general in (
        ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "AuthorizationException"),
        ("UNKNOWN_PRODUCER_ID", "OUT_OF_ORDER_SEQUENCE_NUMBER"),
    ):
        assert positions[special] < positions[general]


def test_every_error_of_transactions_and_of_membership_is_in_the_table() -> None:
    both = {row.name for row in ROWS if row.librdkafka and row.java}
    assert both >= NEEDED
    assert len({row.name for row in ROWS}) == len(ROWS)
    assert all(row.source and row.when and (row.librdkafka or row.java) for row in ROWS)


def test_the_page_is_made_from_the_table() -> None:
    assert PAGE.read_text(encoding="utf-8") == error_table.page(), "run `make docs`"
    assert error_table.FILE.name in PAGE.read_text(encoding="utf-8")
