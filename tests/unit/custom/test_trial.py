"""A user's functions are tried in their own process before the run starts anything."""

import os
from pathlib import Path

import pytest

from harness.common.errors import UsageError
from tests.support.user_pipeline import FUNCTIONS, MINIMAL, WITH_OUTPUTS, read_pipeline
from workloads.custom import trial
from workloads.custom.trial import require_working

pytestmark = pytest.mark.processes

TWO_STAGES = f"""
{MINIMAL}
[[stage]]
name = "count"
reads = ["invoices"]
writes = ["totals"]
command = ["true"]

[expect]
outputs = "expect.py:outputs"
"""


def functions_with(body: str) -> str:
    """Return the user's functions. The function `outputs` has this body."""
    return f"import os, sys, time, uuid\n{FUNCTIONS}\ndef outputs(topic, key, value, headers):\n    {body}\n"


def trial_error(folder: Path, functions: str = FUNCTIONS, text: str = WITH_OUTPUTS) -> str:
    """Return the error of the trial; empty if there is none."""
    try:
        require_working(read_pipeline(folder, text, functions))
    except UsageError as error:
        assert str(error).startswith(f"{folder}/pipeline.toml: ") and "\n" not in str(error)
        return str(error)
    return ""


SHOP = f"from shop.names import INVOICES\n{FUNCTIONS}".replace('"invoices"', "INVOICES")


@pytest.fixture(autouse=True)
def outside_of_pytest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FENCEPOST_IMPORT_PATH", raising=False)


@pytest.mark.parametrize("source", ["", "src"])
@pytest.mark.parametrize("mark", ["pyproject.toml", "pytest.ini", "setup.cfg", ".git"])
def test_functions_may_import_the_package_of_their_project(tmp_path: Path, mark: str, source: str) -> None:
    (tmp_path / mark).touch()
    (tmp_path / source / "shop").mkdir(parents=True)
    (tmp_path / source / "shop" / "names.py").write_text('INVOICES = "invoices"\n')
    (tmp_path / "tests" / "chaos").mkdir(parents=True)
    assert trial_error(tmp_path / "tests" / "chaos", SHOP) == ""


def test_functions_may_import_what_pytest_can_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lib" / "shop").mkdir(parents=True)
    (tmp_path / "lib" / "shop" / "names.py").write_text('INVOICES = "invoices"\n')
    (tmp_path / "tests").mkdir()
    assert "No module named 'shop'" in trial_error(tmp_path / "tests", SHOP)
    monkeypatch.setenv("FENCEPOST_IMPORT_PATH", os.pathsep.join([str(tmp_path), str(tmp_path / "lib")]))
    assert trial_error(tmp_path / "tests", SHOP) == ""


@pytest.mark.parametrize("late", [False, True])
def test_the_error_for_a_missing_module_names_the_folders(tmp_path: Path, late: bool) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "tests").mkdir()
    body = "import shop.names; return []"
    error = trial_error(tmp_path / "tests", functions_with(body) if late else SHOP)
    assert "No module named 'shop'" in error
    assert f"nor in one of these folders: {tmp_path}/tests, {tmp_path}; install it, or add" in error
    assert error.endswith("or add the folder that contains shop to PYTHONPATH")


def test_a_module_with_the_name_of_a_package_of_fencepost_must_be_renamed(tmp_path: Path) -> None:
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "invoices.py").touch()
    error = trial_error(tmp_path, f"import reports.invoices\n{FUNCTIONS}")
    assert error.endswith("Fencepost has a package reports of its own: rename yours")


def test_a_wrong_line_of_an_input_file_is_found_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"value": "{}"}\n' * 100 + '{"value": "{}", "time": 1}\n')
    text = WITH_OUTPUTS.replace('make = "expect.py:purchase"', 'file = "in.jsonl"')
    assert 'line 101 has an unknown field: there is no field "time"' in trial_error(tmp_path, text=text)
    (tmp_path / "in.jsonl").write_text("\n")
    assert "has no input: write one on each line" in trial_error(tmp_path, text=text)


def test_correct_functions_are_accepted(tmp_path: Path) -> None:
    assert trial_error(tmp_path) == ""
    assert trial_error(tmp_path, f"{FUNCTIONS}\nprint('loaded', end='')") == ""
    fold = WITH_OUTPUTS.replace("outputs =", "fold =").replace(":outputs", ":counted")
    assert trial_error(tmp_path, f"{FUNCTIONS}\ndef counted(state, *record):\n    return 1, []\n", fold) == ""


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
        ("os._exit(3)", "a function ended the process with status 3"),
        ("os._exit(0)", "a function ended the process with status 0"),
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
def test_the_error_of_a_wrong_function_says_what_is_wrong(body: str, words: str, tmp_path: Path) -> None:
    assert words in trial_error(tmp_path, functions_with(body))


def test_ignored_fields_may_differ_between_calls(tmp_path: Path) -> None:
    differs = functions_with("return [('invoices', key, json.dumps({'at': str(uuid.uuid4())}))]")
    assert "differ between two calls" in trial_error(tmp_path, differs)
    assert trial_error(tmp_path, differs, f'{WITH_OUTPUTS}ignore = ["/at"]') == ""


def test_a_function_that_makes_inputs_may_be_random(tmp_path: Path) -> None:
    assert (
        trial_error(tmp_path, FUNCTIONS.replace('{"id": n}', '{"id": str(__import__("uuid").uuid4())}')) == ""
    )


def test_the_error_for_a_function_that_hangs_names_the_candidates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "TIMEOUT_S", 2.0)
    error = trial_error(tmp_path, functions_with("return os.read(os.pipe()[0], 1)"))
    assert (
        "a function (expect.py:purchase, expect.py:outputs) did not finish 20 inputs within 2 s: make it faster"
        in error
    )


def test_expected_outputs_of_a_stage_are_tried_as_inputs_of_the_next(tmp_path: Path) -> None:
    first = "    if topic == 'purchases':\n        return [('invoices', key, value)]\n"
    correct = functions_with("pass") + first + "    return [('totals', key, value)]\n"
    assert trial_error(tmp_path, correct, TWO_STAGES) == ""
    wrong = functions_with("pass") + first + "    raise ValueError(topic)\n"
    assert "expect.py:outputs raised ValueError: invoices" in trial_error(tmp_path, wrong, TWO_STAGES)


def test_an_input_without_a_correlation_key_is_an_error(tmp_path: Path) -> None:
    error = trial_error(tmp_path, text=f'{WITH_OUTPUTS}correlate = "json:/purchase_id"')
    assert "the input at purchases/3 offset 0 cannot be joined to its outputs" in error


def test_inputs_are_tried_even_if_no_outputs_are_expected(tmp_path: Path) -> None:
    assert trial_error(tmp_path, text=MINIMAL) == ""
    wrong = FUNCTIONS.replace('json.dumps({"id": n})', "7")
    assert "expect.py:purchase: the value must be bytes, text or None, not int" in trial_error(
        tmp_path, wrong, MINIMAL
    )
    (tmp_path / "in.jsonl").write_text('{"value": "v"}\nno JSON\n')
    from_file = MINIMAL.replace('make = "expect.py:purchase"', 'file = "in.jsonl"')
    assert 'line 2 must look like {"key": "...", "value": "..."}' in trial_error(tmp_path, text=from_file)


def test_different_correlation_keys_of_input_and_output_are_an_error(tmp_path: Path) -> None:
    by_key = WITH_OUTPUTS + 'correlate = "key"\n'
    assert trial_error(tmp_path, functions_with("return [('invoices', key, value)]"), by_key) == ""
    words = trial_error(tmp_path, functions_with("return [('invoices', b'another', value)]"), by_key)
    assert "and 'another' in its expected output in invoices" in words
    assert "make the two equal, so that the output is joined to the input" in words


@pytest.mark.parametrize(
    ("key", "more", "words"),
    [
        ("'all'", "", "records of the key b'all' come from inputs in purchases/"),
        ("key", "", ""),
        ("'all'", "[topics.purchases]\npartitions = 1\n", ""),
    ],
)
def test_a_final_key_with_inputs_in_several_partitions_is_an_error(
    key: str, more: str, words: str, tmp_path: Path
) -> None:
    text = WITH_OUTPUTS.replace('["true"]', '["true"]\ngroup = "g"')
    text = text.replace("[expect]", f'{more}[expect]\nfinal = ["invoices"]')
    error = trial_error(tmp_path, functions_with(f"return [('invoices', {key}, value)]"), text)
    assert words in error if words else error == ""


def test_inputs_without_a_key_cannot_be_folded(tmp_path: Path) -> None:
    fold = WITH_OUTPUTS.replace("outputs =", "fold =").replace(":outputs", ":counted")
    functions = f"{FUNCTIONS}\ndef counted(state, *record):\n    return 1, []\n"
    null = functions.replace('return f"customer-{rng.randrange(9)}"', "return None")
    error = trial_error(tmp_path, null, fold)
    assert "records of the key None are in several partitions of purchases" in error


@pytest.mark.parametrize(
    ("partitioner", "several"),
    [("murmur2_random", False), ("consistent_random", True), ("fnv1a", False), ("random", True)],
)
def test_an_empty_key_is_no_key_for_some_partitioners(
    partitioner: str, several: bool, tmp_path: Path
) -> None:
    fold = WITH_OUTPUTS.replace("outputs =", "fold =").replace(":outputs", ":counted")
    text = fold.replace("[inputs.purchases]", f'[inputs.purchases]\npartitioner = "{partitioner}"')
    functions = f"{FUNCTIONS}\ndef counted(state, *record):\n    return 1, []\n"
    empty = functions.replace('return f"customer-{rng.randrange(9)}"', 'return ""')
    assert ("are in several partitions of purchases" in trial_error(tmp_path, empty, text)) is several


def test_the_partition_of_an_input_is_compared_with_the_partitions_of_its_topic(tmp_path: Path) -> None:
    functions = FUNCTIONS.replace(
        'return f"customer-{rng.randrange(9)}", json.dumps({"id": n})',
        'return {"value": json.dumps({"id": n}), "partition": n % 6}',
    )
    assert trial_error(tmp_path, functions) == ""
    four = f"{WITH_OUTPUTS}[topics.purchases]\npartitions = 4\n"
    assert (
        "partition must be a whole number from 0 to 3, because the topic has 4 partitions, not 4"
        in trial_error(tmp_path, functions, four)
    )
    with pytest.raises(UsageError, match=r"from 0 to 2, because the topic has 3 partitions, not 3"):
        require_working(read_pipeline(tmp_path, functions=functions), 3)  # --set partitions=3


def test_an_expected_partition_is_compared_with_the_partitions_of_its_topic(tmp_path: Path) -> None:
    text = f'{WITH_OUTPUTS}[expect.compare]\ninvoices = ["partition", "headers"]\n'
    output = "{'topic': 'invoices', 'key': key, 'value': value, 'headers': {'n': NAME}, 'partition': 6}"
    functions = functions_with(f"return [{output}]")
    error = trial_error(tmp_path, functions.replace("NAME", "'1'"), text)
    assert "an expected output in invoices: partition must be a whole number from 0 to 5, because" in error
    right = functions.replace(
        "6}", "5 }"
    )  # a compiled file is used again if its second and its size are the same
    assert trial_error(tmp_path, right.replace("NAME", "'1'"), text) == ""
    random = right.replace("NAME", "str(uuid.uuid4())")
    assert "differ between two calls" in trial_error(tmp_path, random, text)
    ignored = text.replace("[expect]", '[expect]\nignore = ["header:n"]')
    assert trial_error(tmp_path, random, ignored) == ""
