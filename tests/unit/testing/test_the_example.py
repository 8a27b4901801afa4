"""The example of docs/add-a-fault.md works. The docstring of `harness.testing` has the same example."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent, indent
from types import ModuleType

import pytest

import harness.testing

ROOT = Path(__file__).resolve().parents[3]
FAULT, TEST = re.findall(r"```python\n(.*?)```", (ROOT / "docs/add-a-fault.md").read_text(), re.DOTALL)


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, object]]:
    """Return the names in the page's test module. The page's fault can then be imported."""
    fault = ModuleType("nemeses.pause_first")
    exec(compile(FAULT, "pause_first.py", "exec"), vars(fault))
    monkeypatch.setitem(sys.modules, fault.__name__, fault)
    names: dict[str, object] = {}
    exec(compile(TEST, "test_pause_first.py", "exec"), names)
    yield names


def test_every_test_of_the_page_passes(example: dict[str, object]) -> None:
    tests = [test for name, test in example.items() if name.startswith("test_")]
    assert len(tests) == 2
    for test in tests:
        test()  # type: ignore[operator]


def test_the_docstring_of_harness_testing_has_the_same_example() -> None:
    assert indent(dedent(TEST).rstrip(), "    ") in (harness.testing.__doc__ or "")
