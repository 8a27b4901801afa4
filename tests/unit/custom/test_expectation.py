"""What a user's functions say becomes what is due; what they may not say is told in a sentence that names them."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.model.expectation import ExpectedOutput, InputRecord
from tests.support.user_pipeline import EXPECTING, FUNCTIONS, MINIMAL, described
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


def expectation(folder: Path, text: str = EXPECTING, functions: str = FUNCTIONS) -> CustomExpectation:
    found = described(folder, text, functions)
    assert found.expect is not None
    return CustomExpectation(found, found.expect)


def bought(value: bytes = b'{"id": 7}', key: bytes | None = b"k", topic: str = "purchases") -> InputRecord:
    return InputRecord(topic, key, value)


def digests(dues: Sequence[ExpectedOutput]) -> list[int]:
    """Of an output it is the same wherever its input stands."""
    for due in dues:
        assert due.digest(0, 0) == due.digest(3, 99)
    return [due.digest(0, 0) for due in dues]


def test_each_output_is_due_of_the_stage_that_makes_it(tmp_path: Path) -> None:
    functions = """
def outputs(topic, key, value, headers):
    if topic == "purchases":
        return [("invoices", key, value), ["invoices", None, b"second"]]
    return [("totals", key, "3")]
"""
    text = f'{COUNTING}outputs = "expect.py:outputs"\ncorrelate = "json:/id"'
    asked = expectation(tmp_path, text, functions + "purchase = None\n")
    dues = list(asked.due(bought()))
    assert [(due.stage, due.output_name, due.topic, due.correlation_key) for due in dues] == [
        ("bill", "invoices", "invoices", "7"),
        ("bill", "invoices#2", "invoices", "7"),
    ]
    digest = Correlation(asked.expect).digest
    assert digests(dues) == [digest(b"k", b'{"id": 7}'), digest(None, b"second")]
    (due,) = asked.due(bought(topic="invoices"))
    assert (due.stage, due.topic) == ("count", "totals")


@pytest.mark.parametrize("value", [None, b"no JSON", b'{"other": 7}'])
def test_what_a_program_wrote_and_nothing_joins_to_an_input_must_lead_to_nothing(
    value: bytes | None, tmp_path: Path
) -> None:
    asked = expectation(tmp_path, f'{COUNTING}outputs = "expect.py:outputs"\ncorrelate = "json:/id"')
    assert list(asked.due(InputRecord("invoices", b"k", value))) == []
    with pytest.raises(UserError, match="cannot be joined to its outputs"):
        list(asked.due(InputRecord("purchases", b"k", value)))


def test_what_is_due_meets_the_output_that_holds_it(tmp_path: Path) -> None:
    for text in (EXPECTING, f'{EXPECTING}correlate = "json:/id"', f'{EXPECTING}correlate = "key"'):
        asked = expectation(tmp_path, text)
        (due,) = asked.due(bought())
        correlation_key = asked.correlation_key(bought(topic="invoices"))
        assert (due.correlation_key, due.digest(0, 0)) == (correlation_key.key, correlation_key.digest)
        assert asked.correlation_key(bought(b'{"id": 8}', b"l")) != correlation_key


def test_what_is_folded_depends_on_what_came_before_of_its_key(tmp_path: Path) -> None:
    text = f'{COUNTING}fold = "expect.py:totals"\n'
    functions = f"""{FUNCTIONS}
def totals(state, topic, key, value):
    if topic == "purchases":
        return state, []
    return total(state, topic, key, value)
"""
    asked = expectation(tmp_path, text, functions)
    given = [(b"a", b"1"), (b"b", b"10"), (b"a", b"2"), (None, b"5"), (b"b", b"20"), (None, b"5")]
    sums = [asked.call_function(bought(value, key, "invoices"))[0][2] for key, value in given]
    assert sums == [b"1", b"10", b"3", b"5", b"30", b"10"]
    assert list(asked.due(bought())) == []


def test_a_key_of_one_topic_is_not_that_of_another(tmp_path: Path) -> None:
    functions = FUNCTIONS.replace('"totals"', '"totals" if topic == "invoices" else "invoices"')
    asked = expectation(tmp_path, f'{COUNTING}fold = "expect.py:total"\n', functions)
    for topic in ("purchases", "invoices"):
        ((_, _, value),) = asked.call_function(bought(b"4", topic=topic))
        assert value == b"4"


FINAL = f'{COUNTING}final = ["totals"]\nfold = "expect.py:total"\n'


def test_where_the_last_record_of_a_key_is_judged_what_is_added_comes_to_the_last_that_is_due(
    tmp_path: Path,
) -> None:
    asked = expectation(tmp_path, FINAL.replace('name = "count"', 'name = "count"\ngroup = "g"'))
    given = [(b"a", b"1"), (b"b", b"10"), (b"a", b"2")]
    sums: dict[bytes, int] = {}
    for key, value in given:
        record = bought(value, key, "invoices")
        assert list(asked.due(record)) == []
        (add,) = asked.adds(record)
        assert (add.stage, add.topic, add.key) == ("count", "totals", key)
        sums[key] = sums.get(key, 0) + add.amount
        held = InputRecord("totals", key, add.content.partition(": ")[2].encode() if add.content else None)
        assert asked.state(held) == sums[key] and asked.correlation_key(held) is None
    assert add.content == "a: 3"
    assert asked.state(InputRecord("totals", b"a", None)) == 0, "no value is as no record"
    other = bought(b"1", b"a", "invoices")
    assert asked.state(other) is None and asked.correlation_key(other) is not None


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return None, [('totals', None, '1')]", "in which b'1' has no key"),
        (
            "return None, [('totals', 'all', '1')]",
            "in which the key b'all' comes from inputs in invoices/0 and in invoices/1",
        ),
    ],
)
def test_a_last_record_of_which_nobody_knows_whose_it_is_is_an_error(
    body: str, words: str, tmp_path: Path
) -> None:
    functions = f"{FUNCTIONS}\ndef all(state, topic, key, value):\n    {body}\n"
    text = FINAL.replace('name = "count"', 'name = "count"\ngroup = "g"').replace(":total", ":all")
    asked = expectation(tmp_path, text, functions)
    with pytest.raises(UserError, match=words):
        for partition, key in enumerate((b"a", b"b")):
            list(asked.adds(InputRecord("invoices", key, b"1", partition)))


def test_a_null_value_that_is_due_comes_to_nothing(tmp_path: Path) -> None:
    body = "return None, [('totals', key, None if value == b'close' else value)]"
    functions = f"{FUNCTIONS}\ndef closes(state, topic, key, value):\n    {body}\n"
    text = FINAL.replace('name = "count"', 'name = "count"\ngroup = "g"').replace(":total", ":closes")
    asked = expectation(tmp_path, text, functions)
    amounts = [
        add.amount for value in (b"open", b"close") for add in asked.adds(bought(value, b"a", "invoices"))
    ]
    assert amounts[0] != 0 and sum(amounts) == 0


def test_an_output_that_no_stage_makes_of_it_is_an_error(tmp_path: Path) -> None:
    asked = expectation(tmp_path, functions=FUNCTIONS.replace('"invoices"', '"invoice"'))
    with pytest.raises(
        UserError, match=r"expect\.py:outputs expects outputs in invoice from inputs in purchases"
    ):
        list(asked.due(bought()))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return None", "must return a list of (topic, key, value), not NoneType"),
        ("yield ('invoices', key, value)", "must return a list of (topic, key, value), not generator"),
        ("return [('invoices', key)]", "must return (topic, key, value), not ('invoices', b'k')"),
        ("return ['abc']", "must return (topic, key, value), not 'abc'"),
        ("return [(7, key, value)]", "must return (topic, key, value), not (7, b'k', "),
        ("return [('invoices', key, {'id': 7})]", "the value must be bytes, text or None, not dict"),
        ("return [('invoices', 7, value)]", "the key must be bytes, text or None, not int"),
        ("raise KeyError('amount')", "raised KeyError: 'amount'"),
        ("raise ValueError('two\\nlines')", "raised ValueError: two lines"),
        ("assert False", "raised AssertionError"),
        ("import sys; sys.exit(0)", "raised SystemExit: 0"),
    ],
)
def test_a_function_that_gives_or_does_what_it_may_not_is_named(
    body: str, words: str, tmp_path: Path
) -> None:
    functions = f"def purchase(rng, n): ...\ndef outputs(topic, key, value, headers):\n    {body}\n"
    with pytest.raises(UserError) as refused:
        list(expectation(tmp_path, functions=functions).due(bought()))
    told = str(refused.value)
    assert told.startswith("expect.py:outputs") and words in told and "\n" not in told


@pytest.mark.parametrize("given", ["[]", "(1, [], 2)", "None"])
def test_what_folds_must_give_its_state_too(given: str, tmp_path: Path) -> None:
    functions = f"def purchase(rng, n): ...\ndef total(state, topic, key, value):\n    return {given}\n"
    asked = expectation(tmp_path, f'{COUNTING}fold = "expect.py:total"\n', functions)
    with pytest.raises(
        UserError, match=r"expect\.py:total must return \(state, \[\(topic, key, value\), \.\.\.\]\)"
    ):
        asked.call_function(bought())


def test_a_function_that_is_not_there_and_a_file_that_cannot_be_loaded_are_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"expect\.py has no function outputs"):
        expectation(tmp_path, functions="outputs = 7\n").call_function(bought())
    (tmp_path / "other").mkdir()
    with pytest.raises(
        UserError, match=r"expect\.py cannot be loaded: ModuleNotFoundError: No module named 'nope'"
    ):
        expectation(tmp_path / "other", functions="import nope\n").call_function(bought())


def test_a_function_may_use_a_file_beside_its_own(tmp_path: Path) -> None:
    (tmp_path / "beside_it_in_a_test.py").write_text("TOPIC = 'invoices'\n")
    functions = FUNCTIONS.replace("import json", "import json\nfrom beside_it_in_a_test import TOPIC")
    asked = expectation(tmp_path, functions=functions.replace('[("invoices"', "[(TOPIC"))
    assert [topic for topic, _, _ in asked.call_function(bought())] == ["invoices"]


def test_where_nothing_is_expected_nothing_is_due() -> None:
    nothing = NothingExpected()
    assert (nothing.due(bought()), nothing.adds(bought())) == ((), ())
    assert nothing.state(bought()) is nothing.correlation_key(bought()) is None
