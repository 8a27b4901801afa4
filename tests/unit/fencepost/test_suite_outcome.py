"""The outcome of a cell: the facts of its verdict that a reader needs before the report."""

import json
from datetime import date
from pathlib import Path

import pytest
from msgspec import structs

from fencepost.suites.outcome import MISSED_REMEDY, ListedFailures, ended, read, with_verdict
from harness.common.documents import encode
from harness.common.errors import UnreadableInput
from harness.results.run_metadata import RunMetadata
from harness.results.suite import Cell, CellState, Suite
from harness.results.verdict import Validity, Verdict
from reports.console import last_lines
from tests.support import synthetic_store
from tests.support.findings import findings_of
from tests.support.suites import cell, suite
from tests.support.synthetic_store import FAULTS

TODAY = date(2026, 11, 24)
NO_TIME = "did not fit into 30 s; --time-limit 88 has room for every fault"


def result_of(verdict: Verdict, failures: ListedFailures = ListedFailures()) -> Cell:  # noqa: B008
    return with_verdict(cell(state=CellState.NOT_CHECKED), verdict, failures, TODAY)


def test_the_first_example_is_that_of_the_console() -> None:
    verdict = synthetic_store.make_verdict(Validity.INVALID)
    shown = [line for line in last_lines(verdict, Path("s"), "c") if line.startswith("    first: ")]
    assert result_of(verdict).first == shown[0].removeprefix("    first: ")


def test_the_first_example_is_of_an_unlisted_anomaly() -> None:
    verdict = synthetic_store.make_verdict(Validity.INVALID)
    cycle = findings_of(1, [{"transactions": 2}], sentences=["a cycle of T1 and T2"])
    verdict = structs.replace(verdict, anomalies={**verdict.anomalies, "G1c": cycle})
    table = {"workload": "shop", "anomaly": "reprocessed-input", "why": "planted"}
    caught = result_of(verdict, read([], [table]))
    assert (caught.state, caught.first) == (CellState.INVALID, "a cycle of T1 and T2")


def test_an_unknown_cell_has_the_first_remedy_and_all_reason_codes() -> None:
    unknown = result_of(synthetic_store.make_verdict(Validity.UNKNOWN))
    assert (unknown.first, unknown.remedy) == ("", "repeat it with another `--seed`")
    assert unknown.codes == ("fault-did-not-act pause-worker", "reader-short")


def test_a_missed_defect_has_a_remedy_and_a_valid_cell_has_none() -> None:
    valid = synthetic_store.make_verdict(Validity.VALID)
    planted = read([], [{"anomaly": "lost-input", "why": "planted"}])
    assert result_of(valid, planted).remedy == MISSED_REMEDY
    assert (result_of(valid).first, result_of(valid).remedy, result_of(valid).codes) == ("", "", ())


def test_faults_are_counted_and_those_without_effect_count_zero() -> None:
    faults = [*FAULTS, FAULTS[0], structs.replace(FAULTS[1], fault="cut-worker", acted=False)]
    not_exercised = {"kill-group-coordinator": NO_TIME, "zombie": "no paused worker came back"}
    cell_ = result_of(
        synthetic_store.make_verdict(Validity.VALID, faults=faults, not_exercised=not_exercised)
    )
    assert cell_.faults == {
        "cut-worker": 0,
        "kill-broker": 2,
        "kill-group-coordinator": 0,
        "partition": 1,
        "pause-worker": 1,
    }
    assert cell_.not_exercised == not_exercised


def test_a_cell_without_a_verdict_has_the_faults_of_the_run_metadata(tmp_path: Path) -> None:
    (run := tmp_path / "runs" / "001" / "1").mkdir(parents=True)
    RunMetadata(faults=FAULTS, unscheduled={"kill-group-coordinator": NO_TIME}).save(run / "metadata.json")
    cell_ = ended(cell(), tmp_path, run)
    assert cell_.faults["kill-broker"] == 1 and cell_.faults["kill-group-coordinator"] == 0


def test_a_long_example_is_shortened_to_one_printable_line() -> None:
    control_characters = findings_of(1, [{"transactions": 2}], sentences=["\n\x1b" + "k" * 100_000])
    cell_ = result_of(
        structs.replace(synthetic_store.make_verdict(Validity.INVALID), anomalies={"G1c": control_characters})
    )
    assert cell_.first.startswith("\\n\\x1bkkk")
    assert len(cell_.first) < 1_200 and cell_.first.isprintable()


def test_a_cell_with_its_outcome_is_loaded_unchanged(tmp_path: Path) -> None:
    cell_ = result_of(synthetic_store.make_verdict(Validity.UNKNOWN))
    suite(cell_).save(tmp_path)
    assert Suite.load(tmp_path).cells == [cell_]


@pytest.mark.parametrize("key", ["faults", "anomalies"])
def test_a_count_that_is_no_number_makes_a_suite_unreadable(key: str, tmp_path: Path) -> None:
    body = encode(suite(cell()))
    body["cells"][0][key] = {"kill-broker": "many"}
    (tmp_path / "suite.json").write_text(json.dumps(body))
    with pytest.raises(UnreadableInput):
        Suite.load(tmp_path)
