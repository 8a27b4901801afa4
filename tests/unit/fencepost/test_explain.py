"""`fencepost explain`: what a reason or an anomaly means."""

import re
from pathlib import Path

import pytest

from checkers.catalogue import catalogue
from fencepost.cli import run_command_line
from harness.common.errors import ExitStatus
from harness.results.reasons import ReasonCode

ROOT = Path(__file__).parents[3]


def explained(capsys: pytest.CaptureFixture[str], *names: str) -> str:
    assert run_command_line(["explain", *names]) == ExitStatus.VALID
    return capsys.readouterr().out


@pytest.mark.parametrize("code", ReasonCode)
def test_a_reason_is_explained_with_what_to_do(capsys: pytest.CaptureFixture[str], code: ReasonCode) -> None:
    text = explained(capsys, code)
    said = text.lower().split()
    assert set(f"{code.meaning} {code.when} {code.remedy}".lower().split()) <= {
        *said,
        *(w.rstrip(".") for w in said),
    }
    assert f"docs/reasons.md#{code}" in text and all(one.key in text for one in code.consequences)


def test_an_anomaly_is_explained_with_example_and_blind_spot(capsys: pytest.CaptureFixture[str]) -> None:
    for anomaly in catalogue():
        text = explained(capsys, anomaly.name)
        assert anomaly.summary in text and "\nExample:\n" in text and "\nBlind spot:\n" in text
        page = re.search(r"docs/anomalies/[\w-]+\.md", text)
        assert page and re.search(rf"^##? `?{anomaly.name}`?$", (ROOT / page[0]).read_text(), re.MULTILINE)


def test_a_name_of_both_is_explained_as_both(capsys: pytest.CaptureFixture[str]) -> None:
    text = explained(capsys, "stalled", "stalled")
    assert text.count("stalled, a reason in") == text.count("stalled, an anomaly") == 1


def test_several_names_are_explained_in_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    text = explained(capsys, "not-drained", "lost-input")
    assert 0 <= text.index("not-drained, a reason") < text.index("lost-input, an anomaly")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("not-draind", '"not-drained"'),
        ("Lost-Inputs", '"lost-input"'),
        ("zzz", "see `fencepost list reasons` and `fencepost list anomalies`"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(
    capfd: pytest.CaptureFixture[str], name: str, hint: str
) -> None:
    assert run_command_line(["explain", name]) == ExitStatus.USAGE
    out, err = capfd.readouterr()
    assert out == "" and len(err.splitlines()) == 1
    assert f'no reason code or anomaly "{name}"' in err and hint in err
