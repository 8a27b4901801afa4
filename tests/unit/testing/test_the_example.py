"""The example of docs/add-a-fault.md, which is that of `harness.testing` too, does what the page says."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent, indent
from types import ModuleType

import pytest

import harness.testing

HOUSE = Path(__file__).resolve().parents[3]
FAULT, TEST = re.findall(r"```python\n(.*?)```", (HOUSE / "docs/add-a-fault.md").read_text(), re.DOTALL)


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, object]]:
    """The names of the test on the page, once the page's fault can be imported."""
    fault = ModuleType("nemeses.pause_first")
    exec(compile(FAULT, "pause_first.py", "exec"), vars(fault))
    monkeypatch.setitem(sys.modules, fault.__name__, fault)
    names: dict[str, object] = {}
    exec(compile(TEST, "test_pause_first.py", "exec"), names)
    yield names


def test_every_test_of_the_page_passes(example: dict[str, object]) -> None:
    tests = [one for name, one in example.items() if name.startswith("test_")]
    assert len(tests) == 2
    for one in tests:
        one()  # type: ignore[operator]


def test_the_room_has_the_same_example() -> None:
    assert indent(dedent(TEST).rstrip(), "    ") in (harness.testing.__doc__ or "")
