"""The worst wins, and nothing checked is nothing known."""

from pathlib import Path

import pytest

from harness.common.errors import ExitStatus, UnreadableInput
from harness.results.membership_changes import MembershipChange
from harness.results.reasons import EXTERNAL_ONLY, Reason, ReasonCode
from harness.results.verdict import (
    AnomalyFindings,
    FaultReport,
    Validity,
    Verdict,
    checks_without_evidence,
    worst_status,
)

VALID, INVALID, UNKNOWN = ExitStatus.VALID, ExitStatus.INVALID, ExitStatus.UNKNOWN
USAGE, FAILURE = ExitStatus.USAGE, ExitStatus.FAILURE


@pytest.mark.parametrize(
    ("statuses", "worst"),
    [
        ([VALID, VALID], VALID),
        ([VALID, UNKNOWN], UNKNOWN),
        ([UNKNOWN, INVALID], INVALID),
        ([INVALID, USAGE], USAGE),
        ([USAGE, FAILURE, INVALID], FAILURE),
        ([], UNKNOWN),
    ],
)
def test_of_several_the_worst_is_returned(statuses: list[ExitStatus], worst: ExitStatus) -> None:
    assert worst_status(statuses) is worst


def test_the_order_is_valid_unknown_invalid() -> None:
    assert Validity.VALID < Validity.UNKNOWN < Validity.INVALID


def test_a_verdict_survives_its_document() -> None:
    verdict = Verdict(
        history="h",
        name="n",
        seed=4,
        valid=Validity.INVALID,
        summary="s",
        anomalies={"duplicate": AnomalyFindings(3, [{"value": "x"}], because="lost-commit")},
        faults=[FaultReport("kill-broker", "broker 2", 1.0, None, True, "proof", "broker 2 was killed")],
        unknown_because=[Reason(ReasonCode.INPUTS_LEFT, "why", "subject", "remedy")],
        not_checked={"G1c": EXTERNAL_ONLY},
        warnings=[Reason(ReasonCode.UNEXPECTED_END, "it ended")],
        checked=["duplicate"],
        churn=[MembershipChange("shop", "shop-4.0", "shop-2.0", 3.0, 4.5, ("in/0",), ("in/1", "in/2"))],
    )
    assert Verdict.from_json(verdict.as_json()) == verdict


@pytest.mark.parametrize(
    "damage", ["valid", "anomalies", "faults", "not_checked_because", "warnings", "checked", "unsettled"]
)
def test_a_document_that_lacks_something_is_no_verdict(damage: str) -> None:
    body = Verdict("h", "n", None, Validity.VALID, "s").as_json()
    del body[damage]
    with pytest.raises(UnreadableInput):
        Verdict.from_json(body)


def test_a_document_whose_reason_is_a_bare_text_is_no_verdict() -> None:
    body = Verdict("h", "n", None, Validity.UNKNOWN, "s").as_json()
    with pytest.raises(UnreadableInput):
        Verdict.from_json(body | {"unknown_because": ["why"]})


def test_a_check_that_is_for_other_histories_lacks_nothing() -> None:
    reasons = {"G1c": EXTERNAL_ONLY, "duplicate": Reason(ReasonCode.NO_LOGS, "no logs")}
    assert checks_without_evidence(reasons).keys() == {"duplicate"}


def test_a_fault_that_lacks_a_part_is_none() -> None:
    body = FaultReport("kill-broker", "broker 2", 1.0, None, True, "proof", "broker 2 was killed").as_json()
    for name in ("target", "struck"):
        with pytest.raises(TypeError):
            FaultReport.from_json({key: value for key, value in body.items() if key != name})


@pytest.mark.parametrize("written", ["[" * 100_000, "{", '{"schema_version": 1}'])
def test_a_verdict_that_is_damaged_is_said(tmp_path: Path, written: str) -> None:
    (tmp_path / "verdict.json").write_text(written)
    with pytest.raises(UnreadableInput, match=r"verdict\.json"):
        Verdict.load(tmp_path / "verdict.json")
