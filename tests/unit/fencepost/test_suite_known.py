"""Known failures: what they excuse, and what is told of them."""

import json
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from fencepost.suites.failures import read, remarks
from fencepost.suites.outcome import judged
from harness.errors import EnvironmentFailure, ExitStatus
from harness.reasons import Reason
from harness.suite import Cell, State, Suite
from harness.verdict import Found, Validity, Verdict
from tests.support.suites import cell, suite

TODAY = date(2026, 11, 24)
TABLE = {"workload": "shop", "anomaly": "reprocessed-input", "why": "a bug", "until": date(2026, 11, 24)}
LISTED = read([TABLE], [])
SHOP = cell("shop", state=State.NOT_JUDGED)


def verdict(valid: Validity = Validity.INVALID, **anomalies: Found) -> Verdict:
    found = {name.replace("_", "-"): one for name, one in anomalies.items()}
    return Verdict("h", "n", 1, valid, "because", anomalies=found)


REPROCESSED = verdict(reprocessed_input=Found(3, []))


def state_of(told: Verdict, cell: Cell = SHOP, today: date = TODAY) -> State:
    return judged(cell, told, LISTED, today).state


def test_a_listed_anomaly_of_a_listed_cell_is_known() -> None:
    entered = judged(SHOP, REPROCESSED, LISTED, TODAY)
    assert (entered.state, entered.anomalies) == (State.KNOWN, {"reprocessed-input": 3})
    assert entered.known == "a bug (until 2026-11-24)"
    assert entered.state.exit_status == ExitStatus.VALID


def test_the_same_anomaly_elsewhere_is_a_failure() -> None:
    assert state_of(REPROCESSED, cell("echo", state=State.NOT_JUDGED)) is State.INVALID


def test_an_anomaly_beside_it_is_a_failure() -> None:
    entered = judged(SHOP, verdict(reprocessed_input=Found(3, []), lost_input=Found(1, [])), LISTED, TODAY)
    assert (entered.state, entered.known) == (State.INVALID, "")
    assert "lost-input 1" in entered.reason and "reprocessed-input" not in entered.reason
    assert entered.anomalies == {"reprocessed-input": 3, "lost-input": 1}


def test_what_follows_from_it_is_known_with_it() -> None:
    follows = Found(1, [], because="reprocessed-input")
    assert state_of(verdict(reprocessed_input=Found(3, []), lost_input=follows)) is State.KNOWN


def test_what_merely_occurs_beside_a_hanging_transaction_is_not_known_with_it() -> None:
    table = {**TABLE, "anomaly": "hanging-transaction"}
    listed = read([table], [])
    hangs, beside = Found(1, []), Found(500, [], because="hanging-transaction")
    assert judged(SHOP, verdict(hanging_transaction=hangs), listed, TODAY).state is State.KNOWN
    both = verdict(hanging_transaction=hangs, lost_input=beside)
    entered = judged(SHOP, both, listed, TODAY)
    assert entered.state is State.INVALID and "lost-input 500" in entered.reason


def test_what_is_known_excuses_no_evidence_that_is_missing() -> None:
    lacks = Reason("checker-crashed", "the checker duplicate crashed", remedy="report it")
    entered = judged(SHOP, replace(REPROCESSED, unknown_because=[lacks]), LISTED, TODAY)
    assert (entered.state, entered.remedy) == (State.UNKNOWN, "report it")
    assert "evidence is missing: the checker duplicate crashed" in entered.reason
    assert entered.known == "a bug (until 2026-11-24)"


def test_a_circle_of_causes_excuses_nothing() -> None:
    circle = verdict(
        lost_input=Found(1, [], because="stale-offset"), stale_offset=Found(1, [], because="lost-input")
    )
    assert state_of(circle) is State.INVALID


def test_what_is_allowed_beside_it_needs_no_excuse() -> None:
    assert (
        state_of(verdict(reprocessed_input=Found(3, []), lost_input=Found(1, [], allowed=True)))
        is State.KNOWN
    )


def test_on_the_day_after_it_counts_as_the_failure_that_it_is() -> None:
    assert state_of(REPROCESSED, today=date(2026, 11, 25)) is State.INVALID
    failed = judged(SHOP, REPROCESSED, LISTED, date(2026, 11, 25))
    (said,) = remarks(LISTED.known, [failed], date(2026, 11, 25))
    assert "expired on 2026-11-24" in said and failed.name in said


def test_an_unknown_verdict_is_never_known() -> None:
    assert state_of(verdict(Validity.UNKNOWN)) is State.UNKNOWN


def test_an_invalid_verdict_without_an_anomaly_is_excused_by_nothing() -> None:
    assert state_of(verdict()) is State.INVALID


def test_no_verdict_is_a_failed_cell() -> None:
    entered = judged(SHOP, EnvironmentFailure("the disk is full"), LISTED, TODAY)
    assert (entered.state, entered.reason) == (State.FAILED, "the disk is full")


def test_one_that_no_run_shows_any_more_is_told_and_changes_no_status() -> None:
    right = judged(SHOP, verdict(Validity.VALID), LISTED, TODAY)
    (said,) = remarks(LISTED.known, [right], TODAY)
    assert "no longer fails in any of its 1 cells" in said
    assert suite(right, remarks=(said,)).exit_status == ExitStatus.VALID


@pytest.mark.parametrize("state", [State.UNKNOWN, State.FAILED, State.NOT_RUN, State.NOT_JUDGED])
def test_it_is_not_said_to_be_gone_where_a_cell_has_no_answer(state: State) -> None:
    right = judged(SHOP, verdict(Validity.VALID), LISTED, TODAY)
    assert list(remarks(LISTED.known, [right, replace(SHOP, name="another", state=state)], TODAY)) == []


def test_it_can_ask_for_one_of_several_and_for_any_option() -> None:
    (one,) = read([{**TABLE, "client": ["java", "librdkafka"], "time-limit": 60}], []).known
    assert one.applies_to(SHOP)
    assert not one.applies_to(replace(SHOP, options={**SHOP.options, "time-limit": 61.0}))


@pytest.mark.parametrize(
    ("states", "status"),
    [
        ([State.VALID, State.KNOWN], ExitStatus.VALID),
        ([State.VALID, State.CAUGHT], ExitStatus.VALID),
        ([State.CAUGHT, State.MISSED], ExitStatus.INVALID),
        ([State.MISSED, State.UNKNOWN], ExitStatus.INVALID),
        ([State.MISSED, State.FAILED], ExitStatus.FAILURE),
        ([State.VALID, State.UNKNOWN], ExitStatus.UNKNOWN),
        ([State.INVALID, State.UNKNOWN], ExitStatus.INVALID),
        ([State.INVALID, State.FAILED], ExitStatus.FAILURE),
        ([State.VALID, State.NOT_RUN], ExitStatus.VALID),
        ([State.VALID, State.NOT_JUDGED], ExitStatus.UNKNOWN),
        ([State.NOT_RUN], ExitStatus.UNKNOWN),
    ],
)
def test_a_suite_is_as_bad_as_its_worst_cell(states: list[State], status: ExitStatus) -> None:
    cells = [cell(nemesis=f"n{n}", state=state) for n, state in enumerate(states)]
    assert suite(*cells).exit_status == status


def test_a_suite_of_which_no_run_was_started_proves_nothing() -> None:
    """As where `--limit` has room for none."""
    idle = cell(state=State.NOT_RUN)
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
