"""Client versions and client ids are read from the brokers' request logs, by listener."""

import orjson

from harness.results import requests
from harness.witness.request_log import (
    ClientVersions,
    ObservedClientIds,
    parse_client_ids,
    parse_client_versions,
)


def line(key: str, version: int, listener: str, name: str = "lib", software_version: str = "2.8") -> bytes:
    entry = {
        "requestHeader": {"requestApiKeyName": key, "requestApiVersion": version, "clientId": "c"},
        "listener": listener,
        "clientInformation": {"softwareName": name, "softwareVersion": software_version},
    }
    return b"Completed request:" + orjson.dumps(entry) + b"\n"


def test_only_versions_on_the_named_listeners_are_collected() -> None:
    lines = [
        line("END_TXN", 1, "OUTPUT_NAME_1"),
        line("END_TXN", 5, "OUTPUT_NAME_2"),
        line("END_TXN", 4, "INT_1"),
        line("TXN_OFFSET_COMMIT", 3, "OUTPUT_NAME_1"),
        line("API_VERSIONS", 3, "OUTPUT_NAME_1", "unknown", "unknown"),
    ]
    versions = {"ApiVersions": [3], "EndTxn": [1, 5], "TxnOffsetCommit": [3]}
    assert parse_client_versions(lines, {"OUTPUT_NAME_1", "OUTPUT_NAME_2"}) == ClientVersions(
        versions, ("lib 2.8",)
    )


def test_incomplete_lines_and_lines_without_the_fields_are_skipped() -> None:
    complete = line("END_TXN", 1, "S")
    without_fields = [
        b"Completed request:[1]\n",
        b"Completed request:{}\n",
        b'Completed request:{"listener":"S"}\n',
    ]
    assert parse_client_versions([complete[:-9], *without_fields, b"INFO\n", b""], {"S"}) == ClientVersions()


def member_line(listener: str, group: str, member: str | None) -> bytes:
    request = {"groupId": group} | ({"memberId": member} if member is not None else {})
    return (
        b"2026-11-25T10:00:00.000Z Completed request:"
        + orjson.dumps({"listener": listener, "request": request})
        + b"\n"
    )


def test_member_ids_are_collected_from_requests_on_a_listener() -> None:
    lines = [
        member_line("OUTPUT_NAME_1", "g", ""),  # it joins
        member_line("OUTPUT_NAME_1", "g", "a"),
        member_line("OUTPUT_NAME_1", "g", "a"),
        member_line("OUTPUT_NAME_1", "h", "b"),
        member_line("OUTPUT_NAME_2", "g", "c"),
        member_line("OUTPUT_NAME_1", "g", None),
        member_line("OUTPUT_NAME_1", "g", "d")[:-9],
        b'Completed request:{"listener":"OUTPUT_NAME_1","request":["memberId"]}\n',
        b'Completed request:["memberId"]\n',
    ]
    assert parse_client_ids(lines, "OUTPUT_NAME_1") == ObservedClientIds(frozenset({("g", "a"), ("h", "b")}))
    assert parse_client_ids(lines, "OUTPUT_NAME_3") == ObservedClientIds()


def transaction_line(listener: str, second: str, **request: str | None) -> bytes:
    entry = orjson.dumps({"listener": listener, "request": request})
    return f"2026-11-25T10:00:{second}Z Completed request:".encode() + entry + b"\n"


def test_transactional_ids_are_collected_with_the_time_of_their_last_request() -> None:
    lines = [
        transaction_line("OUTPUT_NAME_1", "07.250", transactionalId="a"),
        transaction_line("OUTPUT_NAME_1", "07.150", transactionalId="a"),  # another broker's log
        transaction_line("OUTPUT_NAME_1", "08.000", v3AndBelowTransactionalId="b", transactionalId=None),
        transaction_line("OUTPUT_NAME_2", "08.000", transactionalId="c"),
        transaction_line("OUTPUT_NAME_1", "09.000", transactionalId=None),  # a producer without transactions
        transaction_line("OUTPUT_NAME_1", "10.000", v3AndBelowTransactionalId=""),  # sent by a broker
        transaction_line("OUTPUT_NAME_1", "09.000", transactionalId="d")[:-9],
    ]
    times = {"a": "2026-11-25T10:00:07.250Z", "b": "2026-11-25T10:00:08.000Z"}
    assert parse_client_ids(lines, "OUTPUT_NAME_1").transactional_ids == times


def test_versions_with_a_known_meaning_come_first() -> None:
    rows = list(requests.rows({"Fetch": [16, 17], "EndTxn": [1], "Produce": [13]}))
    assert [row[:2] for row in rows] == [("EndTxn", "v1"), ("Produce", "v13"), ("Fetch", "v16, v17")]
    assert "KAFKA-17754" in rows[0][2] and "KAFKA-17754" not in next(requests.rows({"EndTxn": [5]}))[2]
