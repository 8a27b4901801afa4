"""What `check` says of a history, to people and to programs."""

import json
from dataclasses import replace

import pytest

from checkers.checking.wording import with_wording
from checkers.external.lines import line
from fencepost.commands.output import print_history
from harness.common.errors import FencepostError, UnreadableInput
from harness.results.reasons import Reason, ReasonCode
from harness.results.verdict import AnomalyFindings, Validity, Verdict
from tests.support.findings import findings_of

CYCLE = with_wording(
    "G1c", findings_of(2, [{"cycle": [], "steps": ["T4 read 1 from x, which T3 wrote"]}]), line
)
ALLOWED = findings_of(1, [{"cycle": []}], allowed=True, allowed_by="Kafka")
WARNING = findings_of(3, [{}], allowed=True, warning=True)
TWICE = with_wording(
    "reprocessed-input",
    findings_of(2, [{"input": {"topic": "a", "partition": 0, "offset": 5}, "records": []}]),
)


def judged(**anomalies: AnomalyFindings) -> Verdict:
    found = {name.replace("_", "-"): one for name, one in anomalies.items()}
    return Verdict("h", "h", None, Validity.INVALID, "this was found", found)


def told(
    capsys: pytest.CaptureFixture[str], answer: Verdict | FencepostError, *, as_json: bool = False,
    stored: bool = False,
) -> list[str]:  # fmt: skip
    print_history("night", answer, as_json=as_json, stored=stored)
    return capsys.readouterr().out.splitlines()


def test_below_the_verdict_of_a_history_stands_an_example_of_what_counts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert told(capsys, judged(G1c=CYCLE, G0=ALLOWED)) == [
        "night: INVALID: this was found",
        "  G1c (2): T4 read 1 from x, which T3 wrote",
        "  allowed: G0 (1, Kafka)",
    ]


def test_what_follows_from_another_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    (_, line) = told(capsys, judged(G1c=replace(CYCLE, because="lost-write")))
    assert line.startswith("  G1c (2), because of lost-write: T4")


def test_every_reason_of_an_unknown_verdict_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    more = "  more: fencepost explain inputs-left"
    unknown = replace(
        judged(),
        valid=Validity.UNKNOWN,
        unknown_because=[Reason(ReasonCode.INPUTS_LEFT, "a"), Reason(ReasonCode.INPUTS_LEFT, "b")],
    )
    assert told(capsys, unknown)[1:] == ["  unknown: a", "  unknown: b", more]
    assert told(capsys, replace(unknown, unknown_because=[Reason(ReasonCode.INPUTS_LEFT, "a")]))[1:] == [more]


def test_of_a_stored_run_it_is_told_as_in_the_report(capsys: pytest.CaptureFixture[str]) -> None:
    found = judged(reprocessed_input=TWICE, phantom=ALLOWED, stalled=WARNING)
    first, second, third = told(capsys, found, stored=True)
    assert third == "  allowed: phantom (1, Kafka), stalled (3, a warning)"
    assert first == "night: INVALID: this was found"
    assert second.startswith("  reprocessed-input (2): input a/0 offset 5 took effect twice")


def test_programs_get_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = told(capsys, judged(G1c=CYCLE), as_json=True)
    assert json.loads(line)["anomalies"]["G1c"]["count"] == 2


@pytest.mark.parametrize("as_json", [False, True])
def test_what_has_no_verdict_says_why(capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    (line,) = told(capsys, UnreadableInput("line 3 ends\nearly"), as_json=as_json)
    if as_json:
        assert json.loads(line) == {"history": "night", "valid": "unknown", "error": "line 3 ends\nearly"}
    else:
        assert line.startswith("night: no verdict: line 3 ends") and line.endswith("early")
