"""The docstrings are the specification: each has its parts, and the page made from them is up to date."""

from pathlib import Path

import pytest

from checkers.catalogue import Anomaly, as_markdown, catalogue

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("anomaly", catalogue(), ids=lambda anomaly: anomaly.name)
def test_a_docstring_is_a_specification(anomaly: Anomaly) -> None:
    for part in ("\nIllegal because", "\nEvidence:", "\n    ", "\nBlind spot:", "\nReference:"):
        assert part in anomaly.text


def test_the_page_is_made_from_the_docstrings() -> None:
    assert (ROOT / "docs" / "anomalies.md").read_text() == as_markdown(), "run `python -m checkers.catalogue`"


def test_every_name_stands_once() -> None:
    names = [anomaly.name for anomaly in catalogue()]
    assert len(names) == len(set(names)) == 40
