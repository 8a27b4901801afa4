"""The records in the findings of a clients' history get what the broker log says about them."""

from pathlib import Path

from fencepost.checks.check_stored_runs import add_fates
from harness.record.table_reader import RunTables
from tests.support.findings import findings_of
from tests.support.histories import History
from tests.support.stored_tables import write_store


def test_a_record_of_the_history_gets_its_fate_from_the_log(tmp_path: Path) -> None:
    history = History()
    for marker in ("commit", "abort"):
        history.append("x", "sent", 1)
        history.append_marker("x", 1, marker)
    history.append("x", "sent", 1)
    history.append("x", "sent")
    write_store(tmp_path, [(0, history)], log=True)
    own = {"topic": "x", "partition": 0, "fate": "as the tables say", "offset": 0}
    records = [*({"topic": "x", "partition": 0, "offset": at} for at in (0, 2, 4, 5, 99)), own, {"offset": 1}]
    findings = findings_of(1, [{"records": records, "skipped": 1}])
    add_fates(RunTables(tmp_path), [findings])
    facts = [record.facts for record in findings.examples[0].records]
    fates = [(each.get("fate"), each.get("marker_offset")) for each in facts]
    assert fates == [
        ("commit", 1),
        ("abort", 3),
        ("open", None),
        ("plain", None),
        (None, None),
        ("as the tables say", None),
        (None, None),
    ]
    assert facts[0]["producer_id"] == 1


def test_without_broker_logs_no_fate_is_added(tmp_path: Path) -> None:
    history = History()
    history.append("x", "sent", 1)
    write_store(tmp_path, [(0, history)], log=False)
    findings = findings_of(1, [{"records": [{"topic": "x", "partition": 0, "offset": 0}]}])
    add_fates(RunTables(tmp_path), [findings])
    assert "fate" not in findings.examples[0].records[0].facts
