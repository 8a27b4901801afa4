"""Checks of stored runs: crashes, damaged tables, examples, and several runs in one check."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from one_job import WantedRun, want
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from checkers.checker import Checker
from checkers.checking import stored_runs
from checkers.checking.run_checks import CheckOutput
from checkers.checking.stored_runs import StoredRun, check_each_run, check_runs
from checkers.findings import Rule, Suspect
from checkers.stored import tables as tables_module
from checkers.stored.sources import Sources
from checkers.stored.tables import Tables
from harness.common.errors import AnalysisFailed, FencepostError, UnreadableInput
from harness.results.verdict import CheckResult
from tests.support.histories import WALL_MS, History
from tests.support.shared_spark import tables_in
from tests.support.stored_tables import write_store


class Crashing(Checker):
    """A checker whose job fails."""

    def rules(self, tables: Tables) -> Sequence[Rule]:
        return ()

    def suspects(self, tables: Tables) -> Sequence[Suspect]:
        return ()

    def undecided(self, tables: Tables) -> None:  # type: ignore[override]
        return None

    def find(self, tables: Tables) -> DataFrame:
        return tables.tps.select(
            "run",
            F.lit("no-such-anomaly").alias("anomaly"),
            F.lit(False).alias("absence"),
            F.array(F.lit(0).cast("bigint")).alias("position"),
            F.array(F.lit(0).cast("bigint")).alias("ops"),
            F.raise_error(F.lit("out of cheese")).cast("string").alias("detail"),
        )


class WithCrashingSuspects(Crashing):
    """A checker of which already the condition fails by which it is seen whether it has anything to look at."""

    def suspects(self, tables: Tables) -> Sequence[Suspect]:
        return (Suspect("attempts", "raise_error('out of milk')"),)


class CrashingOnRunFour(Crashing):
    """A checker whose job fails on one run."""

    def find(self, tables: Tables) -> DataFrame:
        return super().find(replace(tables, tps=tables.tps.where("run = 4")))


FEW = tuple(c for c in stored_runs.STORE_CHECKERS if c.module == "reprocessed_input")


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    """A store in which input 0 of `a` was taken twice."""
    return taken_twice(tmp_path / "wrong", 3)


@pytest.fixture(scope="module")
def answers_of_crashes(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[int, CheckResult | FencepostError]:
    """The answers for equal runs, of which one has a damaged page. Checkers crash on the others, and one on run 4."""
    folder = tmp_path_factory.mktemp("crashes")
    page = taken_twice(folder / str(DAMAGED), DAMAGED) / "history" / "sends.parquet"
    body = page.read_bytes()
    page.write_bytes(body[:4] + b"\xff" * 60 + body[64:])  # the footer stays whole
    runs = [StoredRun(run, taken_twice(folder / str(run), run)) for run in (4, 3)]
    crashing = (
        WithCrashingSuspects("no_such_condition"),  # its query is the later one
        Crashing("no_such_anomaly"),
        CrashingOnRunFour("on_four"),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored_runs, "STORE_CHECKERS", (*crashing, *FEW))
        return check_each_run(spark, [*runs, StoredRun(DAMAGED, folder / str(DAMAGED))])


@pytest.fixture(scope="module")
def results_of_one_check(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[int, CheckResult]:
    """The results of several runs in one check."""
    folder = tmp_path_factory.mktemp("together")
    runs = [
        StoredRun(run, write_store(folder / str(run), [(run, History())], log=True))
        for run in (EMPTY, ALSO_EMPTY)
    ]
    for run, name, arguments in (
        (WRONG, "wrong", {}),
        (PERMITTED, "permitted", {"allowed": {"reprocessed-input": "the workload"}}),
        (ODD_NAME, "z[1]{a,b}*?", {}),
        (LOST_LOG, "lost-log", {"had_log": True}),
        (WITHOUT_LOG, "without-log", {}),
    ):
        runs.append(StoredRun(run, taken_twice(folder / name, run), **arguments))
        if run in (LOST_LOG, WITHOUT_LOG):
            shutil.rmtree(folder / name / "log")
    h = History()
    h.feed(1)
    write_store(folder / "z1", [(ODD_NAME, h)], log=True)  # what the name would find if it were a pattern
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored_runs, "STORE_CHECKERS", FEW)
        return check_runs(spark, runs)


DAMAGED = 9
EMPTY, ALSO_EMPTY, WRONG, PERMITTED, ODD_NAME, LOST_LOG, WITHOUT_LOG = range(1, 8)


def taken_twice(folder: Path, run: int) -> Path:
    h = History()
    h.feed(1)
    h.transact(0)
    h.transact(0, worker="v", pid=2)
    return write_store(folder, [(run, h)], log=True)


@pytest.mark.parametrize("name", ["no-such-anomaly", "no-such-condition"])
def test_a_crashed_checker_or_condition_is_reported_and_the_others_count(
    name: str, answers_of_crashes: Mapping[int, CheckResult | FencepostError]
) -> None:
    result = answers_of_crashes[3]
    assert isinstance(result, CheckResult)
    assert "out of cheese" in result.broken[name].text
    assert result.anomalies["reprocessed-input"].count == 1
    crashes = [reason for reason in result.broken if reason.startswith("no-such")]
    assert crashes == ["no-such-condition", "no-such-anomaly"], "they are in the order of the checkers"


def test_a_check_that_crashes_on_one_run_is_reported_for_that_run_only(
    answers_of_crashes: Mapping[int, CheckResult | FencepostError],
) -> None:
    four, three = answers_of_crashes[4], answers_of_crashes[3]
    assert isinstance(four, CheckResult) and isinstance(three, CheckResult)
    assert "out of cheese" in four.broken["on-four"].text
    assert "on-four" not in three.broken
    assert three.anomalies["reprocessed-input"].count == 1


def test_a_table_that_cannot_be_made_is_no_checkers_crash(
    spark: SparkSession, wrong: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(*_: object) -> DataFrame:
        raise PySparkException("a page is damaged")

    monkeypatch.setattr(tables_module, "make_attempts", failing)
    with pytest.raises(AnalysisFailed, match="a page is damaged"):
        check_runs(spark, [StoredRun(3, wrong)])
    assert "crashed" not in caplog.text


def test_only_permitted_anomalies_are_allowed(results_of_one_check: Mapping[int, CheckResult]) -> None:
    found = [results_of_one_check[run].anomalies["reprocessed-input"] for run in (WRONG, PERMITTED)]
    assert [(one.allowed, one.allowed_by) for one in found] == [(False, None), (True, "the workload")]


def test_an_example_has_the_fate_of_a_record(results_of_one_check: Mapping[int, CheckResult]) -> None:
    (found,) = results_of_one_check[WRONG].anomalies["reprocessed-input"].examples
    example = found.as_json()
    assert example["input"] == {"topic": "a", "partition": 0, "offset": 0}
    first, second = example["records"]
    assert (first["topic"], first["offset"], first["value"]) == ("x", 0, "w:0:0")
    assert (second["offset"], second["producer_id"], second["fate"], second["marker_offset"]) == (
        2,
        2,
        "commit",
        3,
    )


def without_a_column(path: Path) -> None:
    pq.write_table(pq.read_table(path).drop_columns(["leader"]), path)


def with_another_type(path: Path) -> None:
    table = pq.read_table(path)
    at = table.schema.get_field_index("leader")
    pq.write_table(table.set_column(at, "leader", table["leader"].cast("int32")), path)


@pytest.mark.parametrize(
    "damage",
    [Path.unlink, lambda path: path.write_bytes(b"PAR1 not quite"), without_a_column, with_another_type],
)
def test_a_missing_or_damaged_table_is_named(spark: SparkSession, wrong: Path, damage: object) -> None:
    damage(wrong / "log" / "batches.parquet")  # type: ignore[operator]
    with pytest.raises(UnreadableInput, match=r"log/batches\.parquet"):
        check_runs(spark, [StoredRun(3, wrong)])


def test_a_run_with_a_damaged_page_affects_no_other_run(
    answers_of_crashes: Mapping[int, CheckResult | FencepostError],
) -> None:
    damaged, three = answers_of_crashes[DAMAGED], answers_of_crashes[3]
    assert isinstance(damaged, UnreadableInput)
    assert f"{DAMAGED}/history/sends.parquet" in str(damaged)
    assert isinstance(three, CheckResult)
    assert three.anomalies["reprocessed-input"].count == 1


def test_empty_tables_of_a_run_do_not_change_later_runs(
    results_of_one_check: Mapping[int, CheckResult],
) -> None:
    assert not results_of_one_check[EMPTY].anomalies and not results_of_one_check[ALSO_EMPTY].anomalies
    assert results_of_one_check[WRONG].anomalies["reprocessed-input"].count == 1


def test_a_folder_name_is_not_a_pattern(results_of_one_check: Mapping[int, CheckResult]) -> None:
    assert results_of_one_check[ODD_NAME].anomalies["reprocessed-input"].count == 1


def test_stored_logs_that_are_missing_make_a_run_unknown(
    results_of_one_check: Mapping[int, CheckResult],
) -> None:
    assert "log of __transaction_state" in results_of_one_check[LOST_LOG].broken
    assert "log of __transaction_state" not in results_of_one_check[WITHOUT_LOG].broken


def test_tables_are_freed_after_a_check(
    spark: SparkSession, wrong: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither where it goes well nor where the job fails."""

    before, seen = tables_in(spark), []
    making = stored_runs.make_tables

    def looking(sources: Sources) -> Tables:
        tables = making(sources)
        seen.append(tables_in(spark) - before)
        return tables

    monkeypatch.setattr(stored_runs, "make_tables", looking)
    monkeypatch.setattr(stored_runs, "run_checkers", lambda *_: CheckOutput({}, {}, {}, set()))
    run = StoredRun(3, wrong)
    check_runs(spark, [run])
    assert seen[0]
    assert tables_in(spark) <= before  # Spark may free older ones meanwhile
    monkeypatch.setattr(stored_runs, "run_checkers", _failing)
    with pytest.raises(LookupError):
        check_runs(spark, [run])
    assert seen[1]
    assert tables_in(spark) <= before  # Spark may free older ones meanwhile


def _failing(*_: object) -> None:
    raise LookupError


def _torn(h: History) -> None:
    """The transaction log aborted what the markers commit."""
    h.alter("transactions", lambda row: row | {"state": row["state"].replace("Commit", "Abort")})


def _changed(change: Callable[[History], None]) -> History:
    h = History()
    h.feed(1)
    h.transact(0)
    change(h)
    return h


def _of_a_program(h: History) -> None:
    """The stage keeps no journals."""
    h.alter("stages", lambda row: row | {"journaled": False})


TORN = want(partial(_changed, _torn))
OF_A_PROGRAM = want(partial(_changed, _of_a_program), without_journals=True)


@pytest.mark.parametrize(("one", "anomalies"), [(TORN, ["torn-transaction"]), (OF_A_PROGRAM, [])])
def test_a_verdict_does_not_depend_on_other_runs(
    one: WantedRun,
    anomalies: list[str],
    spark: SparkSession,
    tmp_path: Path,
    result_of: Mapping[WantedRun, CheckResult],
) -> None:
    """A run that is checked alone has empty tables, which Spark does not plan, and checkers that are skipped."""
    folder = write_store(tmp_path / "alone", [(7, one.draw())], log=True)
    run = StoredRun(7, folder, WALL_MS, had_log=True, healed=True, **one.arguments)
    alone = check_runs(spark, [run])[7]
    assert alone == result_of[one]
    assert sorted(alone.anomalies) == anomalies
