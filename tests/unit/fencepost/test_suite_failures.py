"""Failures that a suite file lists: what known ones excuse, and that planted defects have to be caught."""

import json
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from fencepost.commands.options import settle
from fencepost.suites import plan
from fencepost.suites.failures import read, remarks
from fencepost.suites.outcome import with_verdict
from fencepost.suites.plan import SuiteRequest, resume
from harness.common.errors import EnvironmentFailure, ExitStatus, UnreadableInput, UsageError
from harness.results.reasons import Reason, ReasonCode
from harness.results.suite import Cell, CellState, Suite
from harness.results.verdict import AnomalyFindings, Validity, Verdict
from tests.support.suites import cell, suite

HOUSE = Path(__file__).resolve().parents[3]
TODAY = date(2026, 11, 24)
TABLE = {"workload": "shop", "anomaly": "reprocessed-input", "why": "a bug", "until": date(2026, 11, 24)}
LISTED = read([TABLE], [])
PLANTED = read([], [{"workload": "shop", "anomaly": ["lost-input", "reprocessed-input"], "why": "no rewind"}])
SHOP = cell("shop", state=CellState.NOT_CHECKED)


def verdict(valid: Validity = Validity.INVALID, **anomalies: AnomalyFindings) -> Verdict:
    found = {name.replace("_", "-"): one for name, one in anomalies.items()}
    return Verdict("h", "n", 1, valid, "because", anomalies=found)


REPROCESSED = verdict(reprocessed_input=AnomalyFindings(3, []))


def state_of(told: Verdict, cell: Cell = SHOP, today: date = TODAY) -> CellState:
    return with_verdict(cell, told, LISTED, today).state


def planted(told: Verdict, one: Cell = SHOP) -> Cell:
    return with_verdict(one, told, PLANTED, TODAY)


def test_a_listed_anomaly_of_a_listed_cell_is_known() -> None:
    entered = with_verdict(SHOP, REPROCESSED, LISTED, TODAY)
    assert (entered.state, entered.anomalies) == (CellState.KNOWN, {"reprocessed-input": 3})
    assert entered.known == "a bug (until 2026-11-24)"
    assert entered.state.exit_status == ExitStatus.VALID


def test_the_same_anomaly_elsewhere_is_a_failure() -> None:
    assert state_of(REPROCESSED, cell("echo", state=CellState.NOT_CHECKED)) is CellState.INVALID


def test_an_anomaly_beside_it_is_a_failure() -> None:
    entered = with_verdict(
        SHOP,
        verdict(reprocessed_input=AnomalyFindings(3, []), lost_input=AnomalyFindings(1, [])),
        LISTED,
        TODAY,
    )
    assert (entered.state, entered.known) == (CellState.INVALID, "")
    assert "lost-input 1" in entered.reason and "reprocessed-input" not in entered.reason
    assert entered.anomalies == {"reprocessed-input": 3, "lost-input": 1}


def test_what_follows_from_it_is_known_with_it() -> None:
    follows = AnomalyFindings(1, [], because="reprocessed-input")
    assert state_of(verdict(reprocessed_input=AnomalyFindings(3, []), lost_input=follows)) is CellState.KNOWN


def test_what_merely_occurs_beside_a_hanging_transaction_is_not_known_with_it() -> None:
    table = {**TABLE, "anomaly": "hanging-transaction"}
    listed = read([table], [])
    hangs, beside = AnomalyFindings(1, []), AnomalyFindings(500, [], because="hanging-transaction")
    assert with_verdict(SHOP, verdict(hanging_transaction=hangs), listed, TODAY).state is CellState.KNOWN
    both = verdict(hanging_transaction=hangs, lost_input=beside)
    entered = with_verdict(SHOP, both, listed, TODAY)
    assert entered.state is CellState.INVALID and "lost-input 500" in entered.reason


def test_what_is_known_excuses_no_evidence_that_is_missing() -> None:
    lacks = Reason(ReasonCode.CHECK_CRASHED, "the checker duplicate crashed", remedy="report it")
    entered = with_verdict(SHOP, replace(REPROCESSED, unknown_because=[lacks]), LISTED, TODAY)
    assert (entered.state, entered.remedy) == (CellState.UNKNOWN, "report it")
    assert "evidence is missing: the checker duplicate crashed" in entered.reason
    assert entered.known == "a bug (until 2026-11-24)"


def test_a_circle_of_causes_excuses_nothing() -> None:
    circle = verdict(
        lost_input=AnomalyFindings(1, [], because="stale-offset"),
        stale_offset=AnomalyFindings(1, [], because="lost-input"),
    )
    assert state_of(circle) is CellState.INVALID


def test_what_is_allowed_beside_it_needs_no_excuse() -> None:
    assert (
        state_of(
            verdict(reprocessed_input=AnomalyFindings(3, []), lost_input=AnomalyFindings(1, [], allowed=True))
        )
        is CellState.KNOWN
    )


def test_on_the_day_after_it_counts_as_the_failure_that_it_is() -> None:
    assert state_of(REPROCESSED, today=date(2026, 11, 25)) is CellState.INVALID
    failed = with_verdict(SHOP, REPROCESSED, LISTED, date(2026, 11, 25))
    (said,) = remarks(LISTED.known, [failed], date(2026, 11, 25))
    assert "expired on 2026-11-24" in said and failed.name in said


def test_an_unknown_verdict_is_never_known() -> None:
    assert state_of(verdict(Validity.UNKNOWN)) is CellState.UNKNOWN


def test_an_invalid_verdict_without_an_anomaly_is_excused_by_nothing() -> None:
    assert state_of(verdict()) is CellState.INVALID


def test_no_verdict_is_a_failed_cell() -> None:
    entered = with_verdict(SHOP, EnvironmentFailure("the disk is full"), LISTED, TODAY)
    assert (entered.state, entered.reason) == (CellState.FAILED, "the disk is full")


def test_one_that_no_run_shows_any_more_is_told_and_changes_no_status() -> None:
    right = with_verdict(SHOP, verdict(Validity.VALID), LISTED, TODAY)
    (said,) = remarks(LISTED.known, [right], TODAY)
    assert "no longer fails in any of its 1 cells" in said
    assert suite(right, remarks=(said,)).exit_status == ExitStatus.VALID


@pytest.mark.parametrize(
    "state", [CellState.UNKNOWN, CellState.FAILED, CellState.NOT_RUN, CellState.NOT_CHECKED]
)
def test_it_is_not_said_to_be_gone_where_a_cell_has_no_answer(state: CellState) -> None:
    right = with_verdict(SHOP, verdict(Validity.VALID), LISTED, TODAY)
    assert list(remarks(LISTED.known, [right, replace(SHOP, name="another", state=state)], TODAY)) == []


def test_it_can_ask_for_one_of_several_and_for_any_option() -> None:
    (one,) = read([{**TABLE, "client": ["java", "librdkafka"], "time-limit": 60}], []).known
    assert one.applies_to(SHOP)
    assert not one.applies_to(replace(SHOP, options={**SHOP.options, "time-limit": 61.0}))


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
def test_a_suite_is_as_bad_as_its_worst_cell(states: list[CellState], status: ExitStatus) -> None:
    cells = [cell(nemesis=f"n{n}", state=state) for n, state in enumerate(states)]
    assert suite(*cells).exit_status == status


def test_a_suite_of_which_no_run_was_started_proves_nothing() -> None:
    """As where `--limit` has room for none."""
    idle = cell(state=CellState.NOT_RUN)
    assert suite(idle, idle).exit_status == ExitStatus.UNKNOWN
    assert suite(idle, cell()).exit_status == ExitStatus.VALID


def test_a_suite_that_was_interrupted_is_at_best_unknown() -> None:
    assert suite(cell(), interrupted=True).exit_status == ExitStatus.UNKNOWN


def test_a_record_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    written = suite()
    written.save(tmp_path)
    back = Suite.load(tmp_path)
    assert json.dumps(back.as_json()) == json.dumps(written.as_json())
    assert list(back.cells) == list(written.cells)


def test_a_planted_defect_that_is_found_is_caught() -> None:
    caught = planted(verdict(lost_input=AnomalyFindings(3, [])))
    assert (caught.state, caught.expected, caught.known) == (CellState.CAUGHT, "no rewind", "")
    assert caught.anomalies == {"lost-input": 3}
    assert caught.state.exit_status == ExitStatus.VALID and caught.state.good


def test_what_follows_from_an_expected_anomaly_is_caught_with_it() -> None:
    follows = AnomalyFindings(1, [], because="lost-input")
    assert planted(verdict(lost_input=AnomalyFindings(3, []), G1c=follows)).state is CellState.CAUGHT


def test_a_planted_defect_that_is_not_found_makes_the_suite_bad() -> None:
    missed = planted(verdict(Validity.VALID))
    assert (missed.state, missed.expected) == (CellState.MISSED, "no rewind")
    assert "expected lost-input or reprocessed-input" in missed.reason
    assert missed.state.exit_status == ExitStatus.INVALID and missed.state.bad
    assert suite(cell("echo"), missed).exit_status == ExitStatus.INVALID


def test_an_unexpected_anomaly_beside_it_is_not_hidden() -> None:
    more = planted(verdict(lost_input=AnomalyFindings(3, []), G1c=AnomalyFindings(2, [])))
    assert more.state is CellState.INVALID
    assert "G1c 2" in more.reason and "lost-input" not in more.reason
    assert more.anomalies == {"lost-input": 3, "G1c": 2}


def test_each_planted_defect_has_to_be_found_by_an_anomaly_of_its_own() -> None:
    names = ("duplicate", "lost-input")
    tables = [{"workload": "shop", "anomaly": name, "why": f"plants {name}"} for name in names]
    listed = read([], tables)
    one = with_verdict(SHOP, verdict(lost_input=AnomalyFindings(3, [])), listed, TODAY)
    assert (one.state, one.reason) == (
        CellState.MISSED,
        "the planted defect was not caught: expected duplicate",
    )
    both = verdict(lost_input=AnomalyFindings(3, []), duplicate=AnomalyFindings(1, []))
    assert with_verdict(SHOP, both, listed, TODAY).state is CellState.CAUGHT


def test_what_a_defect_does_not_cause_is_not_expected_of_it() -> None:
    table = {"defect": "no-rewind", "anomaly": ["zombie-write"], "why": "planted"}
    with pytest.raises(
        UsageError, match="no-rewind does not cause zombie-write; it may cause aggregate-mismatch"
    ):
        read([], [table])


def test_another_anomaly_alone_does_not_count_as_caught() -> None:
    assert planted(verdict(G1c=AnomalyFindings(2, []))).state is CellState.INVALID


def test_an_invalid_verdict_without_an_anomaly_is_not_caught() -> None:
    assert planted(verdict()).state is CellState.INVALID


def test_a_run_without_an_answer_stays_without_one() -> None:
    assert planted(verdict(Validity.UNKNOWN)).state is CellState.UNKNOWN
    assert with_verdict(SHOP, EnvironmentFailure("full"), PLANTED, TODAY).state is CellState.FAILED


def test_another_run_is_not_expected_to_be_invalid() -> None:
    other = cell("echo", state=CellState.NOT_CHECKED)
    assert planted(verdict(Validity.VALID), other).state is CellState.VALID
    assert planted(verdict(lost_input=AnomalyFindings(3, [])), other).state is CellState.INVALID


def test_a_suite_that_lacks_a_key_cannot_be_read(tmp_path: Path) -> None:
    for key in ("expected", "cells"):
        body = suite(cell(state=CellState.KNOWN)).as_json()
        del (body if key == "expected" else body["cells"][0])["expected"]
        (tmp_path / "suite.json").write_text(json.dumps(body))
        with pytest.raises(UnreadableInput, match="expected"):
            Suite.load(tmp_path)


def test_a_suite_that_goes_on_takes_the_tables_of_its_file(tmp_path: Path) -> None:
    file = tmp_path / "night.toml"
    matrix = '[matrix]\nworkload = "shop"\ndefect = "no-rewind"\n'
    file.write_text(matrix)
    began = plan.load(file, SuiteRequest(settle, seed=1)).suite
    file.write_text(f'{matrix}[[expected]]\nworkload = "shop"\nanomaly = "lost-input"\nwhy = "planted"\n')
    now = resume(began, file, SuiteRequest(settle))
    assert [one["anomaly"] for one in now.suite.expected] == [["lost-input"]]
    assert now.failures.expected[0].applies_to(replace(began.cells[0], state=CellState.VALID))


@pytest.mark.parametrize("name", ["smoke", "versions", "containers"])
def test_the_projects_own_planted_defects_have_to_be_caught(name: str) -> None:
    made = plan.load(HOUSE / "suites" / f"{name}.toml", SuiteRequest(settle, seed=1))
    defects = [one for one in made.suite.cells if "defect" in one.options]
    assert defects and not made.failures.known
    for one in made.suite.cells:
        assert any(table.applies_to(one) for table in made.failures.expected) == (one in defects)
