"""A verdict is the worst of its parts. Without parts it is unknown."""

from pathlib import Path

import pytest

from harness.common.documents import decode, encode, json_text
from harness.common.errors import ExitStatus, UnreadableInput
from harness.results.reasons import EXTERNAL_ONLY, Reason, ReasonCode
from harness.results.recovery import EntryCounts, Lag, PartitionLag
from harness.results.verdict import (
    FaultReport,
    MembershipChange,
    Validity,
    Verdict,
    checks_without_evidence,
    worst_status,
)
from tests.support.findings import findings_of

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
def test_the_worst_of_several_exit_statuses_is_returned(
    statuses: list[ExitStatus], worst: ExitStatus
) -> None:
    assert worst_status(statuses) is worst


def test_invalid_is_worse_than_unknown_and_unknown_is_worse_than_valid() -> None:
    assert Validity.VALID < Validity.UNKNOWN < Validity.INVALID


def test_a_verdict_survives_the_round_trip_through_json() -> None:
    verdict = Verdict(
        history="h",
        name="n",
        seed=4,
        valid=Validity.INVALID.json,
        summary="s",
        anomalies={"duplicate": findings_of(3, [{"value": "x"}], because="lost-commit")},
        faults=[FaultReport("kill-broker", "broker 2", 1.0, None, True, "proof", "broker 2 was killed")],
        unknown_because=[Reason(ReasonCode.INPUTS_LEFT, "why", "subject", "remedy")],
        not_checked_because={"G1c": EXTERNAL_ONLY},
        warnings=[Reason(ReasonCode.UNEXPECTED_END, "it ended")],
        checked=["duplicate"],
        api_errors={"EndTxn": {"NOT_COORDINATOR": 3}},
        churn=[MembershipChange("shop", "shop-4.0", "shop-2.0", 3.0, 4.5, ("in/0",), ("in/1", "in/2"))],
        left=Lag.of([PartitionLag("shop", "g", "in", 0, 4, 6, EntryCounts(commit_markers=1, sentinels=1))]),
    )
    assert decode(encode(verdict), Verdict) == verdict


def test_a_verdict_says_nothing_about_inputs_left_in_an_external_history() -> None:
    body = encode(Verdict("h", "n", None, Validity.VALID.json, "s"))
    assert body["left"] is None
    assert decode(body, Verdict).left is None


@pytest.mark.parametrize(
    "key", ["valid", "anomalies", "faults", "not_checked_because", "warnings", "checked", "unsettled"]
)
def test_a_verdict_without_one_of_its_keys_is_refused(key: str, tmp_path: Path) -> None:
    body = encode(Verdict("h", "n", None, Validity.VALID.json, "s"))
    del body[key]
    (tmp_path / "verdict.json").write_text(json_text(body))
    with pytest.raises(UnreadableInput, match=rf"verdict\.json cannot be read: {key} is missing"):
        Verdict.load(tmp_path / "verdict.json")


def test_a_verdict_with_a_text_as_reason_is_refused() -> None:
    body = encode(Verdict("h", "n", None, Validity.UNKNOWN.json, "s"))
    with pytest.raises(ValueError, match=r"^unknown_because\[0\]: expected an object, not a text$"):
        decode(body | {"unknown_because": ["why"]}, Verdict)


def test_a_check_that_does_not_apply_is_not_one_without_evidence() -> None:
    reasons = {"G1c": EXTERNAL_ONLY, "duplicate": Reason(ReasonCode.NO_LOGS, "no logs")}
    assert checks_without_evidence(reasons).keys() == {"duplicate"}


def test_a_fault_report_without_one_of_its_keys_is_refused() -> None:
    body = encode(FaultReport("kill-broker", "broker 2", 1.0, None, True, "proof", "broker 2 was killed"))
    for name in ("target", "struck"):
        with pytest.raises(ValueError, match=f"{name} is missing"):
            decode({key: value for key, value in body.items() if key != name}, FaultReport)


@pytest.mark.parametrize("text", ["[" * 100_000, "{", '{"schema_version": 1}'])
def test_the_error_for_a_damaged_verdict_names_the_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "verdict.json").write_text(text)
    with pytest.raises(UnreadableInput, match=r"verdict\.json"):
        Verdict.load(tmp_path / "verdict.json")


def test_a_lag_without_rows_that_says_something_is_left_is_refused() -> None:
    body = encode(Verdict("h", "n", None, Validity.VALID.json, "s", left=Lag()))
    body["left"]["entries"]["committed_records"] = 3
    with pytest.raises(ValueError, match=r"^left: rows is empty, and entries says that something is left$"):
        decode(body, Verdict)
