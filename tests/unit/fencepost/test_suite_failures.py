"""Failures that a suite file lists: known failures, and planted defects that must be caught."""

import json
from datetime import date
from pathlib import Path

import pytest
from msgspec import structs

from fencepost.commands.options import settle
from fencepost.suites import plan
from fencepost.suites.outcome import read, remarks, with_verdict
from fencepost.suites.plan import SuiteRequest, resume
from harness.common.documents import encode
from harness.common.errors import EnvironmentFailure, ExitStatus, UnreadableInput, UsageError
from harness.results.reasons import Reason, ReasonCode
from harness.results.suite import Cell, CellState, Suite
from harness.results.verdict import AnomalyFindings, Validity, Verdict
from tests.support.suites import cell, suite

ROOT = Path(__file__).resolve().parents[3]
TODAY = date(2026, 11, 24)
TABLE = {"workload": "shop", "anomaly": "reprocessed-input", "why": "a bug", "until": date(2026, 11, 24)}
LISTED = read([TABLE], [])
PLANTED = read([], [{"workload": "shop", "anomaly": ["lost-input", "reprocessed-input"], "why": "no rewind"}])
SHOP = cell("shop", state=CellState.NOT_CHECKED)


def verdict(valid: Validity = Validity.INVALID, **anomalies: AnomalyFindings) -> Verdict:
    by_name = {name.replace("_", "-"): findings for name, findings in anomalies.items()}
    return Verdict("h", "n", 1, valid.json, "because", anomalies=by_name)


REPROCESSED = verdict(reprocessed_input=AnomalyFindings(3, examples=[]))


def state_of(verdict_: Verdict, cell: Cell = SHOP, today: date = TODAY) -> CellState:
    return with_verdict(cell, verdict_, LISTED, today).state


def with_planted_defect(verdict_: Verdict, cell: Cell = SHOP) -> Cell:
    return with_verdict(cell, verdict_, PLANTED, TODAY)


def test_a_listed_anomaly_in_a_matching_cell_is_known() -> None:
    result = with_verdict(SHOP, REPROCESSED, LISTED, TODAY)
    assert (result.state, result.anomalies) == (CellState.KNOWN, {"reprocessed-input": 3})
    assert result.known == "a bug (until 2026-11-24)"
    assert result.state.exit_status == ExitStatus.VALID


def test_a_listed_anomaly_in_another_cell_is_invalid() -> None:
    assert state_of(REPROCESSED, cell("echo", state=CellState.NOT_CHECKED)) is CellState.INVALID


def test_an_unlisted_anomaly_makes_a_known_cell_invalid() -> None:
    result = with_verdict(
        SHOP,
        verdict(
            reprocessed_input=AnomalyFindings(3, examples=[]), lost_input=AnomalyFindings(1, examples=[])
        ),
        LISTED,
        TODAY,
    )
    assert (result.state, result.known) == (CellState.INVALID, "")
    assert "lost-input 1" in result.reason and "reprocessed-input" not in result.reason
    assert result.anomalies == {"reprocessed-input": 3, "lost-input": 1}


def test_an_anomaly_that_a_known_one_causes_is_known() -> None:
    follows = AnomalyFindings(1, examples=[], because="reprocessed-input")
    assert (
        state_of(verdict(reprocessed_input=AnomalyFindings(3, examples=[]), lost_input=follows))
        is CellState.KNOWN
    )


def test_an_anomaly_with_an_unproven_cause_is_not_known() -> None:
    table = {**TABLE, "anomaly": "hanging-transaction"}
    listed = read([table], [])
    hangs, consequence = (
        AnomalyFindings(1, examples=[]),
        AnomalyFindings(500, examples=[], because="hanging-transaction"),
    )
    assert with_verdict(SHOP, verdict(hanging_transaction=hangs), listed, TODAY).state is CellState.KNOWN
    both = verdict(hanging_transaction=hangs, lost_input=consequence)
    result = with_verdict(SHOP, both, listed, TODAY)
    assert result.state is CellState.INVALID and "lost-input 500" in result.reason


def test_a_known_failure_does_not_excuse_missing_evidence() -> None:
    missing = Reason(ReasonCode.CHECK_CRASHED, "the checker duplicate crashed", remedy="report it")
    result = with_verdict(SHOP, structs.replace(REPROCESSED, unknown_because=[missing]), LISTED, TODAY)
    assert (result.state, result.remedy) == (CellState.UNKNOWN, "report it")
    assert "evidence is missing: the checker duplicate crashed" in result.reason
    assert result.known == "a bug (until 2026-11-24)"


def test_circular_causes_excuse_nothing() -> None:
    circular = verdict(
        lost_input=AnomalyFindings(1, examples=[], because="stale-offset"),
        stale_offset=AnomalyFindings(1, examples=[], because="lost-input"),
    )
    assert state_of(circular) is CellState.INVALID


def test_an_allowed_anomaly_does_not_matter() -> None:
    assert (
        state_of(
            verdict(
                reprocessed_input=AnomalyFindings(3, examples=[]),
                lost_input=AnomalyFindings(1, examples=[], allowed=True),
            )
        )
        is CellState.KNOWN
    )


def test_after_its_last_day_a_known_failure_is_invalid() -> None:
    assert state_of(REPROCESSED, today=date(2026, 11, 25)) is CellState.INVALID
    failed = with_verdict(SHOP, REPROCESSED, LISTED, date(2026, 11, 25))
    (remark,) = remarks(LISTED.known, [failed], date(2026, 11, 25))
    assert "expired on 2026-11-24" in remark and failed.name in remark


def test_an_unknown_verdict_is_not_a_known_failure() -> None:
    assert state_of(verdict(Validity.UNKNOWN)) is CellState.UNKNOWN


def test_an_invalid_verdict_without_anomalies_is_not_known() -> None:
    assert state_of(verdict()) is CellState.INVALID


def test_no_verdict_is_a_failed_cell() -> None:
    result = with_verdict(SHOP, EnvironmentFailure("the disk is full"), LISTED, TODAY)
    assert (result.state, result.reason) == (CellState.FAILED, "the disk is full")


def test_a_known_failure_that_no_longer_occurs_is_only_a_remark() -> None:
    valid_cell = with_verdict(SHOP, verdict(Validity.VALID), LISTED, TODAY)
    (remark,) = remarks(LISTED.known, [valid_cell], TODAY)
    assert "no longer fails in any of its 1 cells" in remark
    assert suite(valid_cell, remarks=(remark,)).exit_status == ExitStatus.VALID


@pytest.mark.parametrize(
    "state", [CellState.UNKNOWN, CellState.FAILED, CellState.NOT_RUN, CellState.NOT_CHECKED]
)
def test_there_is_no_remark_while_a_matching_cell_has_no_verdict(state: CellState) -> None:
    valid_cell = with_verdict(SHOP, verdict(Validity.VALID), LISTED, TODAY)
    assert (
        list(remarks(LISTED.known, [valid_cell, structs.replace(SHOP, name="another", state=state)], TODAY))
        == []
    )


def test_a_listed_failure_matches_lists_and_any_option() -> None:
    (failure,) = read([{**TABLE, "client": ["java", "librdkafka"], "time-limit": 60}], []).known
    assert failure.applies_to(SHOP)
    assert not failure.applies_to(structs.replace(SHOP, options={**SHOP.options, "time-limit": 61.0}))


@pytest.mark.parametrize(
    ("states", "status"),
    [
        ([CellState.VALID, CellState.KNOWN], ExitStatus.VALID),
        ([CellState.VALID, CellState.CAUGHT], ExitStatus.VALID),
        ([CellState.CAUGHT, CellState.MISSED], ExitStatus.INVALID),
        ([CellState.MISSED, CellState.UNKNOWN], ExitStatus.INVALID),
        ([CellState.MISSED, CellState.FAILED], ExitStatus.FAILURE),
        ([CellState.VALID, CellState.UNKNOWN], ExitStatus.UNKNOWN),
        ([CellState.INVALID, CellState.UNKNOWN], ExitStatus.INVALID),
        ([CellState.INVALID, CellState.FAILED], ExitStatus.FAILURE),
        ([CellState.VALID, CellState.NOT_RUN], ExitStatus.VALID),
        ([CellState.VALID, CellState.NOT_CHECKED], ExitStatus.UNKNOWN),
        ([CellState.NOT_RUN], ExitStatus.UNKNOWN),
    ],
)
def test_the_exit_status_of_a_suite_is_that_of_its_worst_cell(
    states: list[CellState], status: ExitStatus
) -> None:
    cells = [cell(nemesis=f"n{n}", state=state) for n, state in enumerate(states)]
    assert suite(*cells).exit_status == status


def test_a_suite_without_a_started_run_is_unknown() -> None:
    """For instance if `--limit` leaves no time for any run."""
    idle = cell(state=CellState.NOT_RUN)
    assert suite(idle, idle).exit_status == ExitStatus.UNKNOWN
    assert suite(idle, cell()).exit_status == ExitStatus.VALID


def test_a_suite_that_was_interrupted_is_at_best_unknown() -> None:
    assert suite(cell(), interrupted=True).exit_status == ExitStatus.UNKNOWN


def test_a_saved_suite_is_loaded_unchanged(tmp_path: Path) -> None:
    record = suite()
    record.save(tmp_path)
    loaded = Suite.load(tmp_path)
    assert json.dumps(encode(loaded)) == json.dumps(encode(record))
    assert list(loaded.cells) == list(record.cells)


def test_a_planted_defect_with_an_expected_anomaly_is_caught() -> None:
    caught = with_planted_defect(verdict(lost_input=AnomalyFindings(3, examples=[])))
    assert (caught.state, caught.expected, caught.known) == (CellState.CAUGHT, "no rewind", "")
    assert caught.anomalies == {"lost-input": 3}
    assert caught.state.exit_status == ExitStatus.VALID and caught.state.good


def test_an_anomaly_that_an_expected_one_causes_is_caught_too() -> None:
    follows = AnomalyFindings(1, examples=[], because="lost-input")
    assert (
        with_planted_defect(verdict(lost_input=AnomalyFindings(3, examples=[]), G1c=follows)).state
        is CellState.CAUGHT
    )


def test_a_planted_defect_without_an_anomaly_is_missed() -> None:
    missed = with_planted_defect(verdict(Validity.VALID))
    assert (missed.state, missed.expected) == (CellState.MISSED, "no rewind")
    assert "expected lost-input or reprocessed-input" in missed.reason
    assert missed.state.exit_status == ExitStatus.INVALID and missed.state.bad
    assert suite(cell("echo"), missed).exit_status == ExitStatus.INVALID


def test_an_unexpected_anomaly_makes_a_planted_cell_invalid() -> None:
    more = with_planted_defect(
        verdict(lost_input=AnomalyFindings(3, examples=[]), G1c=AnomalyFindings(2, examples=[]))
    )
    assert more.state is CellState.INVALID
    assert "G1c 2" in more.reason and "lost-input" not in more.reason
    assert more.anomalies == {"lost-input": 3, "G1c": 2}


def test_each_planted_defect_needs_one_of_its_anomalies() -> None:
    names = ("duplicate", "lost-input")
    tables = [{"workload": "shop", "anomaly": name, "why": f"plants {name}"} for name in names]
    listed = read([], tables)
    result = with_verdict(SHOP, verdict(lost_input=AnomalyFindings(3, examples=[])), listed, TODAY)
    assert (result.state, result.reason) == (
        CellState.MISSED,
        "the planted defect was not caught: expected duplicate",
    )
    both = verdict(lost_input=AnomalyFindings(3, examples=[]), duplicate=AnomalyFindings(1, examples=[]))
    assert with_verdict(SHOP, both, listed, TODAY).state is CellState.CAUGHT


def test_an_anomaly_that_the_defect_does_not_cause_is_refused() -> None:
    table = {"defect": "no-rewind", "anomaly": ["zombie-write"], "why": "planted"}
    with pytest.raises(
        UsageError, match="no-rewind does not cause zombie-write; it may cause aggregate-mismatch"
    ):
        read([], [table])


def test_an_unexpected_anomaly_alone_is_invalid() -> None:
    assert with_planted_defect(verdict(G1c=AnomalyFindings(2, examples=[]))).state is CellState.INVALID


def test_an_invalid_verdict_without_an_anomaly_is_not_caught() -> None:
    assert with_planted_defect(verdict()).state is CellState.INVALID


def test_a_planted_cell_can_be_unknown_or_failed() -> None:
    assert with_planted_defect(verdict(Validity.UNKNOWN)).state is CellState.UNKNOWN
    assert with_verdict(SHOP, EnvironmentFailure("full"), PLANTED, TODAY).state is CellState.FAILED


def test_cells_without_a_planted_defect_are_not_affected() -> None:
    other = cell("echo", state=CellState.NOT_CHECKED)
    assert with_planted_defect(verdict(Validity.VALID), other).state is CellState.VALID
    assert (
        with_planted_defect(verdict(lost_input=AnomalyFindings(3, examples=[])), other).state
        is CellState.INVALID
    )


def test_a_suite_json_without_a_key_cannot_be_read(tmp_path: Path) -> None:
    for key in ("expected", "cells"):
        body = encode(suite(cell(state=CellState.KNOWN)))
        del (body if key == "expected" else body["cells"][0])["expected"]
        (tmp_path / "suite.json").write_text(json.dumps(body))
        with pytest.raises(UnreadableInput, match="expected"):
            Suite.load(tmp_path)


def test_a_resumed_suite_takes_the_listed_failures_of_its_file(tmp_path: Path) -> None:
    file = tmp_path / "night.toml"
    text = '[matrix]\nworkload = "shop"\ndefect = "no-rewind"\n'
    file.write_text(text)
    stored = plan.load(file, SuiteRequest(settle, seed=1)).suite
    file.write_text(f'{text}[[expected]]\nworkload = "shop"\nanomaly = "lost-input"\nwhy = "planted"\n')
    resumed = resume(stored, file, SuiteRequest(settle))
    assert [failure["anomaly"] for failure in resumed.suite.expected] == [["lost-input"]]
    assert resumed.failures.expected[0].applies_to(structs.replace(stored.cells[0], state=CellState.VALID))


@pytest.mark.parametrize("name", ["smoke", "versions", "containers"])
def test_every_planted_defect_of_our_suites_is_expected(name: str) -> None:
    plan_ = plan.load(ROOT / "suites" / f"{name}.toml", SuiteRequest(settle, seed=1))
    defects = [planned for planned in plan_.suite.cells if "defect" in planned.options]
    assert defects
    assert not any(table.applies_to(planned) for table in plan_.failures.known for planned in defects)
    for planned in plan_.suite.cells:
        assert any(table.applies_to(planned) for table in plan_.failures.expected) == (planned in defects)
