"""A user's functions are tried in a process of their own before anything is started."""

from pathlib import Path

import pytest

from harness.common.errors import UsageError
from tests.support.user_pipeline import EXPECTING, FUNCTIONS, MINIMAL, described
from workloads.custom import trial
from workloads.custom.trial import require_working

TWO = f"""
{MINIMAL}
[[stage]]
name = "count"
reads = ["invoices"]
writes = ["totals"]
command = ["true"]

[expect]
outputs = "expect.py:outputs"
"""


def outputs(body: str) -> str:
    """Functions of which that one does so."""
    return f"import os, sys, time, uuid\n{FUNCTIONS}\ndef outputs(topic, key, value, headers):\n    {body}\n"


def tried(folder: Path, functions: str = FUNCTIONS, text: str = EXPECTING) -> str:
    """What is said of them; empty: all is well."""
    try:
        require_working(described(folder, text, functions))
    except UsageError as error:
        assert str(error).startswith(f"{folder}/pipeline.toml: ") and "\n" not in str(error)
        return str(error)
    return ""


def test_functions_that_do_as_they_should_are_let_through(tmp_path: Path) -> None:
    assert tried(tmp_path) == ""
    assert tried(tmp_path, f"{FUNCTIONS}\nprint('loaded', end='')") == ""
    fold = EXPECTING.replace("outputs =", "fold =").replace(":outputs", ":kept")
    assert tried(tmp_path, f"{FUNCTIONS}\ndef kept(state, *given):\n    return 1, []\n", fold) == ""


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return 1 / 0", "expect.py:outputs raised ZeroDivisionError: division by zero"),
        (
            "print('begun', end=''); raise KeyError('id')",
            "pipeline.toml: expect.py:outputs raised KeyError: 'id'",
        ),
        ("return [('invoices', key)]", "expect.py:outputs must return (topic, key, value)"),
        ("return [('invoice', key, value)]", "expects outputs in invoice from inputs in purchases"),
        ("sys.exit(0)", "expect.py:outputs raised SystemExit: 0"),
        ("os._exit(3)", "it ended with status 3 and printed nothing"),
        ("os._exit(0)", "it ended with status 0 and printed nothing"),
        ("print('bye', file=sys.stderr, flush=True); os._exit(3)", "pipeline.toml: bye"),
        (
            "return [('invoices', key, str(uuid.uuid4()))]",
            "the expected outputs of an input in purchases differ between two calls",
        ),
        (
            "outputs.n = getattr(outputs, 'n', 0) + 1; return [('invoices', key, value)] * (outputs.n % 7)",
            "the expected outputs of an input in purchases differ between two calls",
        ),
    ],
)
def test_what_one_does_that_it_may_not_is_told(body: str, words: str, tmp_path: Path) -> None:
    assert words in tried(tmp_path, outputs(body))


def test_what_is_ignored_may_differ_from_call_to_call(tmp_path: Path) -> None:
    differs = outputs("return [('invoices', key, json.dumps({'at': str(uuid.uuid4())}))]")
    assert "differ between two calls" in tried(tmp_path, differs)
    assert tried(tmp_path, differs, f'{EXPECTING}ignore = ["/at"]') == ""


def test_what_makes_inputs_may_be_random(tmp_path: Path) -> None:
    assert tried(tmp_path, FUNCTIONS.replace('{"id": n}', '{"id": str(__import__("uuid").uuid4())}')) == ""


def test_one_that_hangs_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "TIMEOUT_S", 2.0)
    told = tried(tmp_path, outputs("return os.read(os.pipe()[0], 1)"))
    assert "a function (expect.py:purchase, expect.py:outputs) did not finish 20 inputs" in told


def test_what_comes_of_a_first_stage_is_tried_on_the_second(tmp_path: Path) -> None:
    first = "    if topic == 'purchases':\n        return [('invoices', key, value)]\n"
    well = outputs("pass") + first + "    return [('totals', key, value)]\n"
    assert tried(tmp_path, well, TWO) == ""
    wrong = outputs("pass") + first + "    raise ValueError(topic)\n"
    assert "expect.py:outputs raised ValueError: invoices" in tried(tmp_path, wrong, TWO)


def test_an_input_that_nothing_joins_to_its_outputs_is_told(tmp_path: Path) -> None:
    told = tried(tmp_path, text=f'{EXPECTING}correlate = "json:/purchase_id"')
    assert "the input at purchases/3 offset 0 cannot be joined to its outputs" in told


def test_where_nothing_is_expected_the_inputs_are_tried_all_the_same(tmp_path: Path) -> None:
    assert tried(tmp_path, text=MINIMAL) == ""
    wrong = FUNCTIONS.replace('json.dumps({"id": n})', "7")
    assert "expect.py:purchase: the value must be bytes, text or None, not int" in tried(
        tmp_path, wrong, MINIMAL
    )
    (tmp_path / "in.jsonl").write_text('{"value": "v"}\nno JSON\n')
    of_file = MINIMAL.replace('make = "expect.py:purchase"', 'file = "in.jsonl"')
    assert 'line 2 must look like {"key": "...", "value": "..."}' in tried(tmp_path, text=of_file)


def test_what_nothing_would_join_is_told(tmp_path: Path) -> None:
    by_key = EXPECTING + 'correlate = "key"\n'
    assert tried(tmp_path, outputs("return [('invoices', key, value)]"), by_key) == ""
    words = tried(tmp_path, outputs("return [('invoices', b'another', value)]"), by_key)
    assert "and 'another' in its expected output in invoices" in words
    assert "the two must be equal to be joined" in words


@pytest.mark.parametrize(
    ("key", "more", "words"),
    [
        ("'all'", "", "in which the key b'all' comes from inputs in purchases/"),
        ("key", "", ""),
        ("'all'", "[topics.purchases]\npartitions = 1\n", ""),
    ],
)
def test_a_last_record_of_several_partitions_of_inputs_is_told_before_a_run(
    key: str, more: str, words: str, tmp_path: Path
) -> None:
    text = EXPECTING.replace('["true"]', '["true"]\ngroup = "g"')
    text = text.replace("[expect]", f'{more}[expect]\nfinal = ["invoices"]')
    told = tried(tmp_path, outputs(f"return [('invoices', {key}, value)]"), text)
    assert words in told if words else told == ""


def test_inputs_without_a_key_cannot_be_folded(tmp_path: Path) -> None:
    fold = EXPECTING.replace("outputs =", "fold =").replace(":outputs", ":kept")
    functions = FUNCTIONS.replace('return f"customer-{rng.randrange(9)}"', 'return ""')
    assert "records of the key b'' are in several partitions of purchases" in tried(
        tmp_path, f"{functions}\ndef kept(state, *given):\n    return 1, []\n", fold
    )
