"""The output of `check` for one history: text, or a line of JSON."""

import json

import pytest
from msgspec import structs

from checkers.checking.stored_runs import with_wording
from checkers.findings import example_line
from fencepost.commands.output import print_history
from harness.common.errors import FencepostError, UnreadableInput
from harness.results.reasons import Reason, ReasonCode
from harness.results.verdict import AnomalyFindings, Validity, Verdict
from tests.support.findings import findings_of

CYCLE = with_wording(
    "G1c", findings_of(2, [{"cycle": [], "steps": ["T4 read 1 from x, which T3 wrote"]}]), example_line
)
ALLOWED = findings_of(1, [{"cycle": []}], allowed=True, allowed_by="Kafka")
WARNING = findings_of(3, [{}], allowed=True, warning=True)
TWICE = with_wording(
    "reprocessed-input",
    findings_of(2, [{"input": {"topic": "a", "partition": 0, "offset": 5}, "records": []}]),
)


def verdict_with(**anomalies: AnomalyFindings) -> Verdict:
    by_name = {name.replace("_", "-"): findings for name, findings in anomalies.items()}
    return Verdict("h", "h", None, Validity.INVALID.json, "this was found", by_name)


def printed_lines(
    capsys: pytest.CaptureFixture[str], result: Verdict | FencepostError, *, as_json: bool = False,
    stored: bool = False,
) -> list[str]:  # fmt: skip
    print_history("night", result, as_json=as_json, stored=stored)
    return capsys.readouterr().out.splitlines()


def test_a_history_has_a_line_for_each_anomaly_that_is_not_allowed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert printed_lines(capsys, verdict_with(G1c=CYCLE, G0=ALLOWED)) == [
        "night: INVALID: this was found",
        "  G1c (2): T4 read 1 from x, which T3 wrote",
        "  allowed: G0 (1, Kafka)",
    ]


def test_an_anomaly_with_a_cause_names_the_cause(capsys: pytest.CaptureFixture[str]) -> None:
    (_, line) = printed_lines(capsys, verdict_with(G1c=structs.replace(CYCLE, because="lost-write")))
    assert line.startswith("  G1c (2), because of lost-write: T4")


def test_every_reason_of_an_unknown_verdict_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    more = "  more: fencepost explain inputs-left"
    unknown = structs.replace(
        verdict_with(),
        valid=Validity.UNKNOWN.json,
        unknown_because=[Reason(ReasonCode.INPUTS_LEFT, "a"), Reason(ReasonCode.INPUTS_LEFT, "b")],
    )
    assert printed_lines(capsys, unknown)[1:] == ["  unknown: a", "  unknown: b", more]
    assert printed_lines(
        capsys, structs.replace(unknown, unknown_because=[Reason(ReasonCode.INPUTS_LEFT, "a")])
    )[1:] == [more]


def test_a_stored_run_has_the_sentences_of_its_report(capsys: pytest.CaptureFixture[str]) -> None:
    verdict = verdict_with(reprocessed_input=TWICE, phantom=ALLOWED, stalled=WARNING)
    first, second, third = printed_lines(capsys, verdict, stored=True)
    assert third == "  allowed: phantom (1, Kafka), stalled (3, a warning)"
    assert first == "night: INVALID: this was found"
    assert second.startswith("  reprocessed-input (2): input a/0 offset 5 took effect twice")


def test_json_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = printed_lines(capsys, verdict_with(G1c=CYCLE), as_json=True)
    assert json.loads(line)["anomalies"]["G1c"]["count"] == 2


@pytest.mark.parametrize("as_json", [False, True])
def test_a_history_without_a_verdict_has_the_error(capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    (line,) = printed_lines(capsys, UnreadableInput("line 3 ends\nearly"), as_json=as_json)
    if as_json:
        assert json.loads(line) == {"history": "night", "valid": "unknown", "error": "line 3 ends\nearly"}
    else:
        assert line.startswith("night: no verdict: line 3 ends") and line.endswith("early")
