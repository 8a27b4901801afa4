"""`fencepost explain` explains reason codes and anomalies."""

import re
from pathlib import Path

import pytest

from checkers.catalogue import catalogue
from fencepost.cli import run_command_line
from harness.common.errors import ExitStatus
from harness.results.reasons import ReasonCode

ROOT = Path(__file__).parents[3]


def explain(capsys: pytest.CaptureFixture[str], *names: str) -> str:
    assert run_command_line(["explain", *names]) == ExitStatus.VALID
    return capsys.readouterr().out


@pytest.mark.parametrize("code", ReasonCode)
def test_a_reason_is_explained_with_its_remedy(capsys: pytest.CaptureFixture[str], code: ReasonCode) -> None:
    text = explain(capsys, code)
    words = text.lower().split()
    assert set(f"{code.meaning} {code.when} {code.remedy}".lower().split()) <= {
        *words,
        *(w.rstrip(".") for w in words),
    }
    assert f"docs/reasons.md#{code}" in text and all(
        consequence.key in text for consequence in code.consequences
    )


def test_an_anomaly_is_explained_with_example_and_blind_spot(capsys: pytest.CaptureFixture[str]) -> None:
    for anomaly in catalogue():
        text = explain(capsys, anomaly.name)
        assert anomaly.summary in text and "\nExample:\n" in text and "\nBlind spot:\n" in text
        page = re.search(r"docs/anomalies/[\w-]+\.md", text)
        assert page and re.search(rf"^##? `?{anomaly.name}`?$", (ROOT / page[0]).read_text(), re.MULTILINE)


def test_a_name_of_a_reason_and_an_anomaly_is_explained_as_both(capsys: pytest.CaptureFixture[str]) -> None:
    text = explain(capsys, "stalled", "stalled")
    assert text.count("stalled, a reason in") == text.count("stalled, an anomaly") == 1


def test_several_names_are_explained_in_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    text = explain(capsys, "not-drained", "lost-input")
    assert 0 <= text.index("not-drained, a reason") < text.index("lost-input, an anomaly")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("not-draind", '"not-drained"'),
        ("Lost-Inputs", '"lost-input"'),
        ("zzz", "see `fencepost list reasons` and `fencepost list anomalies`"),
    ],
)
def test_an_unknown_name_is_refused_with_a_suggestion(
    capfd: pytest.CaptureFixture[str], name: str, hint: str
) -> None:
    assert run_command_line(["explain", name]) == ExitStatus.USAGE
    out, err = capfd.readouterr()
    assert out == "" and len(err.splitlines()) == 1
    assert f'no reason code or anomaly "{name}"' in err and hint in err


def test_the_name_of_a_fault_is_refused_with_the_command_that_explains_it(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert run_command_line(["explain", "rule"]) == ExitStatus.USAGE
    assert '"rule" is a fault: see `fencepost list nemeses rule`' in capfd.readouterr().err
