"""A whole run: a real cluster, real faults, a verdict, and what it leaves."""

import json
from xml.etree import ElementTree

import pyarrow.parquet as pq

from fencepost.api import Result
from harness.common.documents import decode
from harness.record.schema import HISTORY, LOG, null
from harness.results.verdict import Verdict, checks_without_evidence


def test_a_correct_pipeline_is_valid_under_faults_that_acted(stored: Result) -> None:
    stored.assert_valid()
    faults = stored.verdict["faults"]
    assert {fault["fault"] for fault in faults} == {"kill-worker", "pause-worker"}
    assert all(fault["acted"] and fault["evidence"] for fault in faults)
    assert not checks_without_evidence(decode(stored.verdict, Verdict).not_checked_because)
    assert "took effect exactly once" in stored.verdict["summary"]
    assert stored.verdict["coverage"]["aborted"] > 0


def test_the_pipeline_went_on_within_the_bound_of_each_fault(stored: Result) -> None:
    for fault in stored.verdict["faults"]:
        liveness = fault["liveness"]
        assert liveness["not_known"] is None, liveness
        assert liveness["first_commit_s"] is not None and liveness["lso_still_s"] is not None, liveness
        assert 0 < liveness["longest_gap_s"] < liveness["bound_s"], liveness
        recovery = f"recovery: commits again after {liveness['first_commit_s']:,.1f} s"
        assert recovery in (stored.folder / "junit.xml").read_text()
    assert "stalled" in stored.verdict["checked"] and "stalled" not in stored.verdict["anomalies"]
    assert "Recovery in numbers" in (stored.folder / "report.html").read_text()


def test_a_zombie_was_fenced(stored: Result) -> None:
    paused = next(fault for fault in stored.verdict["faults"] if fault["fault"] == "pause-worker")
    assert "others had committed" in paused["evidence"]
    assert "was fenced" in paused["evidence"]
    assert stored.verdict["coverage"]["fenced"] >= 1


def test_a_run_leaves_its_evidence_its_reports_and_its_options(stored: Result) -> None:
    for name in (
        "run.toml",
        "metadata.json",
        "verdict.json",
        "report.html",
        "junit.xml",
        "journals",
        "brokers",
    ):
        assert (stored.folder / name).exists(), name
    assert (stored.folder.parent.parent / "latest").resolve() == stored.folder.resolve()
    suite = ElementTree.parse(stored.folder / "junit.xml").getroot()
    assert int(suite.attrib.get("failures", "0")) == 0
    assert json.loads((stored.folder / "verdict.json").read_text())["valid"] is True


def test_no_column_that_is_declared_not_null_has_a_null(stored: Result) -> None:
    for folder, tables in (("history", HISTORY), ("log", LOG)):
        for name, schema in tables.items():
            rows = pq.read_table(stored.folder / folder / f"{name}.parquet")
            assert rows.num_rows, name
            non_nullable = [column.name for column in schema if not null(column)]
            assert [column for column in non_nullable if rows[column].null_count] == [], name
