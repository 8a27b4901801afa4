"""Write the report of a run, with the definition of each check."""

from collections.abc import Mapping
from pathlib import Path

from checkers.catalogue import catalogue
from harness.results.verdict import Verdict
from reports.html.checked import CheckMeaning
from reports.html.page import write_report


def check_meanings() -> Mapping[str, CheckMeaning]:
    """For each anomaly: the family of its checker and its definition."""
    return {anomaly.name: CheckMeaning(anomaly.family, anomaly.sentence) for anomaly in catalogue()}


def write_run_report(folder: Path, verdict: Verdict, duration_s: float) -> None:
    """Write `report.html` and `junit.xml` into the folder of a run. An error is logged."""
    write_report(folder, verdict, duration_s, check_meanings())
