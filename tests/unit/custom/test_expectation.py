"""The user's functions define the expected outputs. The error for a wrong function names it."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.model.expectation import ExpectedOutput, InputRecord
from harness.record.naming import excerpt
from tests.support.user_pipeline import FUNCTIONS, MINIMAL, WITH_OUTPUTS, read_pipeline
from workloads.custom.correlation import Correlation
from workloads.custom.expectation import CustomExpectation, NothingExpected
from workloads.custom.functions import UserError

COUNTING = f"""
{MINIMAL}
[[stage]]
name = "count"
reads = ["invoices"]
writes = ["totals"]
command = ["true"]

[expect]
"""


def load_expectation(folder: Path, text: str = WITH_OUTPUTS, functions: str = FUNCTIONS) -> CustomExpectation:
    description = read_pipeline(folder, text, functions)
    assert description.expect is not None
    return CustomExpectation(description, description.expect)


def purchase_record(
    value: bytes = b'{"id": 7}', key: bytes | None = b"k", topic: str = "purchases"
) -> InputRecord:
    return InputRecord(topic, key, value)


def digests(expected_outputs: Sequence[ExpectedOutput]) -> list[int]:
    """Return the digests, which do not depend on the partition and offset of the input."""
    for due in expected_outputs:
        assert due.digest(0, 0) == due.digest(3, 99)
    return [due.digest(0, 0) for due in expected_outputs]


def test_an_expected_output_belongs_to_the_stage_that_writes_its_topic(tmp_path: Path) -> None:
    functions = """
def outputs(topic, key, value, headers):
    if topic == "purchases":
        return [("invoices", key, value), ["invoices", None, b"second"]]
    return [("totals", key, "3")]
"""
    text = f'{COUNTING}outputs = "expect.py:outputs"\ncorrelate = "json:/id"'
    expectation = load_expectation(tmp_path, text, functions + "purchase = None\n")
    expected_outputs = list(expectation.expected_outputs(purchase_record()))
    assert [(due.stage, due.output_name, due.topic, due.correlation_key) for due in expected_outputs] == [
        ("bill", "invoices", "invoices", "7"),
        ("bill", "invoices#2", "invoices", "7"),
    ]
    digest = Correlation(expectation.expect).digest
    assert digests(expected_outputs) == [digest(b"k", b'{"id": 7}'), digest(None, b"second")]
    (due,) = expectation.expected_outputs(purchase_record(topic="invoices"))
    assert (due.stage, due.topic) == ("count", "totals")


@pytest.mark.parametrize("value", [None, b"no JSON", b'{"other": 7}'])
def test_an_intermediate_record_without_a_key_has_no_expected_outputs(
    value: bytes | None, tmp_path: Path
) -> None:
    expectation = load_expectation(
        tmp_path, f'{COUNTING}outputs = "expect.py:outputs"\ncorrelate = "json:/id"'
    )
    assert list(expectation.expected_outputs(InputRecord("invoices", b"k", value))) == []
    with pytest.raises(UserError, match="cannot be joined to its outputs"):
        list(expectation.expected_outputs(InputRecord("purchases", b"k", value)))


def test_an_expected_output_has_the_correlation_key_and_digest_of_its_output(tmp_path: Path) -> None:
    for text in (WITH_OUTPUTS, f'{WITH_OUTPUTS}correlate = "json:/id"', f'{WITH_OUTPUTS}correlate = "key"'):
        expectation = load_expectation(tmp_path, text)
        (due,) = expectation.expected_outputs(purchase_record())
        correlation_key = expectation.correlation_key(purchase_record(topic="invoices"))
        assert (due.correlation_key, due.digest(0, 0)) == (correlation_key.key, correlation_key.digest)
        assert expectation.correlation_key(purchase_record(b'{"id": 8}', b"l")) != correlation_key


def test_a_fold_depends_on_the_earlier_inputs_of_its_key(tmp_path: Path) -> None:
    text = f'{COUNTING}fold = "expect.py:totals"\n'
    functions = f"""{FUNCTIONS}
def totals(state, topic, key, value):
    if topic == "purchases":
        return state, []
    return total(state, topic, key, value)
"""
    expectation = load_expectation(tmp_path, text, functions)
    inputs = [(b"a", b"1"), (b"b", b"10"), (b"a", b"2"), (None, b"5"), (b"b", b"20"), (None, b"5")]
    sums = [expectation.call_function(purchase_record(value, key, "invoices"))[0][2] for key, value in inputs]
    assert sums == [b"1", b"10", b"3", b"5", b"30", b"10"]
    assert list(expectation.expected_outputs(purchase_record())) == []


def test_a_fold_has_one_state_for_each_topic_and_key(tmp_path: Path) -> None:
    functions = FUNCTIONS.replace('"totals"', '"totals" if topic == "invoices" else "invoices"')
    expectation = load_expectation(tmp_path, f'{COUNTING}fold = "expect.py:total"\n', functions)
    for topic in ("purchases", "invoices"):
        (expected,) = expectation.call_function(purchase_record(b"4", topic=topic))
        assert expected.value == b"4"


FINAL = f'{COUNTING}final = ["totals"]\nfold = "expect.py:total"\n'


def test_expected_amounts_add_up_to_the_state_of_the_last_expected_record(
    tmp_path: Path,
) -> None:
    expectation = load_expectation(tmp_path, FINAL.replace('name = "count"', 'name = "count"\ngroup = "g"'))
    inputs = [(b"a", b"1"), (b"b", b"10"), (b"a", b"2")]
    sums: dict[bytes, int] = {}
    for key, value in inputs:
        record = purchase_record(value, key, "invoices")
        assert list(expectation.expected_outputs(record)) == []
        (add,) = expectation.expected_sums(record)
        assert (add.stage, add.topic, add.key) == ("count", "totals", key)
        sums[key] = sums.get(key, 0) + add.amount
        held = InputRecord("totals", key, add.content.partition(": ")[2].encode() if add.content else None)
        assert expectation.held_sum(held) == sums[key] and expectation.correlation_key(held) is None
    assert add.content == "a: 3"
    assert expectation.held_sum(InputRecord("totals", b"a", None)) == 0, "a null value counts like no record"
    intermediate = purchase_record(b"1", b"a", "invoices")
    assert (
        expectation.held_sum(intermediate) is None and expectation.correlation_key(intermediate) is not None
    )


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return None, [('totals', None, '1')]", "the record b'1' has no key"),
        (
            "return None, [('totals', 'all', '1')]",
            "records of the key b'all' come from inputs in invoices/0 and in invoices/1",
        ),
    ],
)
def test_a_final_output_without_a_key_or_from_several_partitions_is_an_error(
    body: str, words: str, tmp_path: Path
) -> None:
    functions = f"{FUNCTIONS}\ndef all(state, topic, key, value):\n    {body}\n"
    text = FINAL.replace('name = "count"', 'name = "count"\ngroup = "g"').replace(":total", ":all")
    expectation = load_expectation(tmp_path, text, functions)
    with pytest.raises(UserError, match=words):
        for partition, key in enumerate((b"a", b"b")):
            list(expectation.expected_sums(InputRecord("invoices", key, b"1", partition)))


def test_an_expected_null_value_makes_the_sum_zero(tmp_path: Path) -> None:
    body = "return None, [('totals', key, None if value == b'close' else value)]"
    functions = f"{FUNCTIONS}\ndef closes(state, topic, key, value):\n    {body}\n"
    text = FINAL.replace('name = "count"', 'name = "count"\ngroup = "g"').replace(":total", ":closes")
    expectation = load_expectation(tmp_path, text, functions)
    amounts = [
        add.amount
        for value in (b"open", b"close")
        for add in expectation.expected_sums(purchase_record(value, b"a", "invoices"))
    ]
    assert amounts[0] != 0 and sum(amounts) == 0


def test_an_expected_output_that_no_stage_writes_is_an_error(tmp_path: Path) -> None:
    expectation = load_expectation(tmp_path, functions=FUNCTIONS.replace('"invoices"', '"invoice"'))
    with pytest.raises(
        UserError, match=r"expect\.py:outputs expects outputs in invoice from inputs in purchases"
    ):
        list(expectation.expected_outputs(purchase_record()))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return None", "must return a list of (topic, key, value), not NoneType"),
        ("yield ('invoices', key, value)", "must return a list of (topic, key, value), not generator"),
        ("return [('invoices', key)]", "must return (topic, key, value) or {"),
        ("return ['abc']", '"value": "..."}, not \'abc\''),
        ("return [(7, key, value)]", "'topic': 7, 'key': b'k'"),
        ("return [{'topic': 'invoices', 'value': value}]", "must return (topic, key, value) or {"),
        (
            "return [{'topic': 'invoices', 'key': key, 'value': value, 'offset': 1}]",
            'returns an unknown field: there is no field "offset"',
        ),
        ("return [('invoices', key, {'id': 7})]", "the value must be bytes, text or None, not dict"),
        ("return [('invoices', 7, value)]", "the key must be bytes, text or None, not int"),
        ("raise KeyError('amount')", "raised KeyError: 'amount'"),
        ("raise ValueError('two\\nlines')", "raised ValueError: two lines"),
        ("assert False", "raised AssertionError"),
        ("import sys; sys.exit(0)", "raised SystemExit: 0"),
    ],
)
def test_the_error_of_a_wrong_function_names_it(body: str, words: str, tmp_path: Path) -> None:
    functions = f"def purchase(rng, n): ...\ndef outputs(topic, key, value, headers):\n    {body}\n"
    with pytest.raises(UserError) as refused:
        list(load_expectation(tmp_path, functions=functions).expected_outputs(purchase_record()))
    message = str(refused.value)
    assert message.startswith("expect.py:outputs") and words in message and "\n" not in message


@pytest.mark.parametrize("result", ["[]", "(1, [], 2)", "None"])
def test_a_fold_must_return_its_state(result: str, tmp_path: Path) -> None:
    functions = f"def purchase(rng, n): ...\ndef total(state, topic, key, value):\n    return {result}\n"
    expectation = load_expectation(tmp_path, f'{COUNTING}fold = "expect.py:total"\n', functions)
    with pytest.raises(
        UserError, match=r"expect\.py:total must return \(state, \[\(topic, key, value\), \.\.\.\]\)"
    ):
        expectation.call_function(purchase_record())


def test_a_missing_function_and_a_file_that_cannot_be_loaded_are_errors(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"expect\.py has no function outputs"):
        load_expectation(tmp_path, functions="outputs = 7\n").call_function(purchase_record())
    (tmp_path / "other").mkdir()
    with pytest.raises(
        UserError, match=r"expect\.py cannot be loaded: ModuleNotFoundError: No module named 'nope'"
    ):
        load_expectation(tmp_path / "other", functions="import nope\n").call_function(purchase_record())


def test_a_function_may_import_a_file_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "imported_in_a_test.py").write_text("TOPIC = 'invoices'\n")
    functions = FUNCTIONS.replace("import json", "import json\nfrom imported_in_a_test import TOPIC")
    expectation = load_expectation(tmp_path, functions=functions.replace('[("invoices"', "[(TOPIC"))
    assert [expected.topic for expected in expectation.call_function(purchase_record())] == ["invoices"]


def test_without_expect_no_input_has_expected_outputs() -> None:
    expectation = NothingExpected()
    assert (
        expectation.expected_outputs(purchase_record()),
        expectation.expected_sums(purchase_record()),
    ) == ((), ())
    assert expectation.held_sum(purchase_record()) is expectation.correlation_key(purchase_record()) is None


COMPARING = f"""{WITH_OUTPUTS}correlate = "key"
ignore = ["header:trace"]
[expect.compare]
invoices = ["headers", "timestamp_ms", "partition"]
"""
GIVES = """
def purchase(rng, n):
    ...

def outputs(topic, key, value, headers, timestamp_ms):
    return [
        {
            "topic": "invoices", "key": key, "value": value, "headers": {"type": "invoice", "n": b"1"},
            "timestamp_ms": timestamp_ms, "partition": 2,
        }
    ]
"""
RIGHT = InputRecord(
    "invoices", b"k", b'{"id": 7}', 2, 9, (("n", b"1"), ("trace", b"ab"), ("type", b"invoice")), 1_700
)
WRONG = {
    "another value of a header": RIGHT._replace(headers=(("n", b"1"), ("type", b"refund"))),
    "a null header": RIGHT._replace(headers=(("n", b"1"), ("type", None))),
    "a header is gone": RIGHT._replace(headers=(("type", b"invoice"),)),
    "a header too many": RIGHT._replace(headers=(*RIGHT.headers, ("extra", b"1"))),
    "a header twice": RIGHT._replace(headers=(*RIGHT.headers, ("n", b"1"))),
    "another time stamp": RIGHT._replace(timestamp_ms=1_701),
    "another partition": RIGHT._replace(partition=1),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_an_output_with_a_wrong_part_differs_from_the_expected_one(wrong: str, tmp_path: Path) -> None:
    source = InputRecord("purchases", b"k", b'{"id": 7}', timestamp_ms=1_700)
    expectation = load_expectation(tmp_path, COMPARING, GIVES)
    (due,) = expectation.expected_outputs(source)
    for record, equal in ((RIGHT, True), (WRONG[wrong], False)):
        found = expectation.correlation_key(record)
        assert found is not None and found.key == due.correlation_key
        assert (found.digest == due.digest(0, 0)) is equal
        assert (excerpt(record.key, record.value, found.more) == due.content) is equal
    assert due.content is not None and due.content.endswith(
        "(headers [('n', b'1'), ('type', b'invoice')]; timestamp_ms 1700; partition 2)"
    )


@pytest.mark.parametrize("wrong", WRONG)
def test_a_part_that_is_not_named_is_not_compared(wrong: str, tmp_path: Path) -> None:
    expectation = load_expectation(tmp_path, f'{WITH_OUTPUTS}correlate = "key"')
    (due,) = expectation.expected_outputs(purchase_record())
    found = expectation.correlation_key(WRONG[wrong])
    assert found is not None and found.digest == due.digest(0, 0) and found.more == ""


@pytest.mark.parametrize(
    ("text", "output", "words"),
    [
        (
            WITH_OUTPUTS,
            "'headers': {}",
            'an output in invoices, but it would not be compared: write compare.invoices = ["headers"] in [expect]',
        ),
        (
            f'{WITH_OUTPUTS}[expect.compare]\ninvoices = ["headers"]',
            "'timestamp_ms': 5, 'headers': {}",
            'compare.invoices = ["headers", "timestamp_ms"] in [expect]',
        ),
        (
            f'{WITH_OUTPUTS}[expect.compare]\ninvoices = ["headers"]',
            "",
            "must give headers for each output in invoices, because `compare` names it",
        ),
        (
            f'{WITH_OUTPUTS}[expect.compare]\ninvoices = ["headers"]',
            "'headers': 'type'",
            "headers must be a mapping or a list of pairs, not 'type'",
        ),
        (
            f'{WITH_OUTPUTS}[expect.compare]\ninvoices = ["partition"]',
            "'partition': -1",
            "partition must be a whole number from 0, not -1",
        ),
        (
            f'{WITH_OUTPUTS}[expect.compare]\ninvoices = ["timestamp_ms"]',
            "'timestamp_ms': -1",
            "timestamp_ms must be the milliseconds since 1970",
        ),
        (
            WITH_OUTPUTS.replace('["true"]', '["true"]\ngroup = "g"') + 'final = ["invoices"]',
            "'partition': 1",
            "gives partition for an output in invoices, but `final` has this topic",
        ),
    ],
)
def test_an_output_must_give_what_is_compared_and_no_more(
    text: str, output: str, words: str, tmp_path: Path
) -> None:
    body = f"return [{{'topic': 'invoices', 'key': key, 'value': value, {output}}}]"
    functions = f"{FUNCTIONS}\ndef outputs(topic, key, value, headers):\n    {body}\n"
    with pytest.raises(UserError) as refused:
        load_expectation(tmp_path, text, functions).call_function(purchase_record())
    assert str(refused.value).startswith("expect.py:outputs") and words in str(refused.value)


KEYED = f"""{FUNCTIONS}
def region(topic, key, value, headers):
    return json.loads(value)["region"]


def by_region(state, topic, key, value):
    state = (state or 0) + 1
    return state, [("invoices", json.loads(value)["region"], str(state))]
"""
BY_REGION = f'{MINIMAL}[expect]\nfold = "expect.py:by_region"\nfold_key = "expect.py:region"\n'


def test_a_fold_can_be_keyed_by_a_function_of_the_input(tmp_path: Path) -> None:
    inputs = [(b"a", "north"), (b"b", "north"), (b"a", "south"), (b"c", "north")]
    for text, totals in (
        (BY_REGION, ["1", "2", "1", "3"]),
        (BY_REGION.replace("fold_key", "#"), ["1", "1", "2", "1"]),
    ):
        expectation = load_expectation(tmp_path, text, KEYED)
        values = [
            expectation.call_function(purchase_record(f'{{"region": "{region}"}}'.encode(), key))[0].value
            for key, region in inputs
        ]
        assert values == [total.encode() for total in totals]


def test_the_inputs_of_a_fold_key_must_be_in_one_partition(tmp_path: Path) -> None:
    expectation = load_expectation(tmp_path, BY_REGION, KEYED)
    expectation.call_function(InputRecord("purchases", b"a", b'{"region": "north"}', 1))
    expectation.call_function(InputRecord("purchases", b"a", b'{"region": "south"}', 0))
    with pytest.raises(
        UserError, match=r"records of the key 'north' are in several partitions .* a `partition`"
    ):
        expectation.call_function(InputRecord("purchases", b"b", b'{"region": "north"}', 0))


def test_a_fold_key_must_be_hashable(tmp_path: Path) -> None:
    functions = f"{KEYED}\ndef region(topic, key, value, headers):\n    return []\n"
    expectation = load_expectation(tmp_path, BY_REGION, functions)
    with pytest.raises(UserError, match=r"expect\.py:region must return the key of a state, .* not \[\]"):
        expectation.call_function(purchase_record())


def test_a_function_gets_the_fields_that_it_names(tmp_path: Path) -> None:
    record = InputRecord("purchases", b"k", b"v", 3, headers=(("h", b"1"),), timestamp_ms=1_700)
    functions = f"""{FUNCTIONS}
def named(state, topic, key, value, partition, *, headers, timestamp_ms):
    return None, [("invoices", key, f"{{partition}} {{timestamp_ms}} {{headers}}")]
"""
    expectation = load_expectation(tmp_path, f'{MINIMAL}[expect]\nfold = "expect.py:named"\n', functions)
    assert [expected.value for expected in expectation.call_function(record)] == [b"3 1700 {'h': b'1'}"]
