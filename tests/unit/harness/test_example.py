"""Examples: which kind each part has, and what is written back."""

from typing import Any

import pytest

from harness.common.documents import decode, encode
from harness.results.example import KINDS, Example, Input, Operation, Record
from harness.results.verdict import Validity, Verdict
from tests.support.findings import findings_of

POSITION = {"topic": "invoices", "partition": 3, "offset": 17}
RECORD = POSITION | {"value": "x=1", "fate": "commit", "op": 7}
T7 = {"op": 7, "name": "w:7", "call_ns": 1_000_000_000, "commit_ns": None}


def test_the_key_decides_the_kind_of_a_part_and_its_fields_do_not() -> None:
    example = Example.from_json({"record": {"op": 7}, "operation": RECORD, "input": T7, "place": POSITION})
    assert [part.facts for part in example.records] == [{"op": 7}]
    assert [part.facts for part in example.operations] == [RECORD]
    assert [part.facts for part in example.inputs] == [T7]
    assert [part.position for part in example.positions] == ["invoices/3 offset 17"]


def test_a_part_inside_another_part_is_found() -> None:
    step = {"kind": "wr", "from": {"op": 1}, "to": {"op": 2}, "record": {"key": "x", "value": 3}}
    example = Example.from_json({"operations": 2, "cycle": [step]})
    assert [(part.label, part.get("op")) for part in example.operations] == [("from", 1), ("to", 2)]
    assert [part.get("value") for part in example.records] == [3]
    assert example.rest == {"operations": 2}


def test_an_object_under_an_unknown_key_stays_json() -> None:
    body = {"unknown": {"record": RECORD}, "records": [], "lacking": [3], "state": None}
    example = Example.from_json(body)
    assert not list(example.parts())
    assert example.rest == {"unknown": {"record": RECORD}, "lacking": [3]}


@pytest.mark.parametrize("key", KINDS)
@pytest.mark.parametrize("value", [RECORD, [RECORD, 3, None, [RECORD]], [], None, "text", {"operation": T7}])
def test_an_example_is_written_as_it_was_read(key: str, value: Any) -> None:
    assert Example.from_json({key: value}).as_json() == {key: value}


def test_a_record_knows_the_operation_that_wrote_it() -> None:
    for body in (
        {"record": RECORD | {"operation": T7}},
        {"record": RECORD, "operation": T7},
        {"records": [RECORD], "operations": [{"op": 6}, T7]},
    ):
        example = Example.from_json(body)
        assert example.writer(example.records[0]) == Operation(example.operations[-1].label, T7)
    assert example.writer(Record("record", {"op": 9})) == Operation("operation", {"op": 9})
    assert example.writer(Record("record", {})) is None


def test_only_objects_among_the_expected_outputs_are_used() -> None:
    assert Input("input", {"due": [{"slot": "a"}, "b"]}).expected_outputs == [{"slot": "a"}]
    assert Input("input", {"due": "b"}).expected_outputs == []


@pytest.mark.parametrize("examples", [7, None, ["text"], [[]]])
def test_a_verdict_whose_examples_are_no_objects_cannot_be_read(examples: Any) -> None:
    body = encode(Verdict("h", "n", None, Validity.INVALID.json, "", {"duplicate": findings_of(1, [])}))
    body["anomalies"]["duplicate"]["examples"] = examples
    with pytest.raises(ValueError, match=r"examples(\[0\])?: expected"):
        decode(body, Verdict)
    body["anomalies"] = {}
    decode(body, Verdict)
    body["unsettled"]["examples"] = examples
    with pytest.raises(ValueError, match=r"examples(\[0\])?: expected"):
        decode(body, Verdict)
