"""`make check FILE=duplicate`: the tests of one anomaly."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.one_anomaly import anomalies_named

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[2]


def check(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-P", "-m", "pytest", "-q", "--collect-only", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_an_anomaly_is_selected_by_its_name_or_by_its_file() -> None:
    assert anomalies_named("lost-input") == anomalies_named("lost_input") == {"lost-input"}
    assert {"G0", "G1c-ww", "G2-realtime"} <= anomalies_named("cycles")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("lost-imput", 'there is no anomaly "lost-imput"; the nearest names are lost-input'),
        ("", "no anomaly is named; try make check FILE=duplicate"),
    ],
)
def test_an_unknown_anomaly_ends_with_one_sentence_and_status_2(name: str, sentence: str) -> None:
    done = check("--anomaly", name, "tests/unit/checkers/test_cases.py")
    assert done.returncode == 2
    assert sentence in done.stderr and done.stderr.count("\n") == 1 and not done.stdout.strip()


def test_cases_their_legal_neighbours_and_tests_with_the_name_are_selected() -> None:
    files = ("tests/unit/checkers/test_cases.py", "tests/unit/test_plain_jepsen.py")
    selected = check("--anomaly", "duplicate", *files).stdout
    assert "test_case[one_value_at_two_offsets_is_a_duplicate]" in selected
    assert "test_case[an_input_that_the_feeder_repeated_is_no_duplicate]" in selected
    assert "has_a_case_and_can_be_planted" not in selected and "lost-write-bad" not in selected
    assert "[duplicate-bad" in selected
