"""Results of external histories: their reasons, and the names in their examples."""

import json
from collections.abc import Sequence
from contextlib import nullcontext
from html import unescape
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from checkers.external_tables import GRAPHS, RW
from checkers.histories.check import TOO_LARGE, check_histories
from checkers.histories.table import SparkTable
from fencepost.cli import run_command_line
from harness.record.history_form import NAMES, NAMES_FROM, OK, OPS
from harness.results.reasons import ReasonCode
from harness.results.verdict import CheckResult
from tests.reference.generate import random_history, to_edn
from tests.support.micro import Row, micro_table, poll_row, send_row

LAGGING = [
    send_row(5, 1, 0), send_row(6, 2, 1), *(send_row(op, op, op) for op in (10, 15, 20)),
    poll_row(30, 1, 0), poll_row(6, 1, 0), poll_row(5, 2, 1),
]  # fmt: skip
"""The reader of operation 30 lags behind every writer; operations 5 and 6 read what the other wrote."""
CYCLE = [send_row(5, 1, 0), send_row(6, 2, 1), poll_row(6, 1, 0), poll_row(5, 2, 1)]
NAMED = {
    number: [poll_row(2, number, 0), send_row(4, 3, 1), poll_row(6, 3, 1)]
    for number in (NAMES_FROM, NAMES_FROM + 9)
}
"""Histories with a value that is not a number in the history."""
SKIPS = {
    received: [
        *(send_row(2 * value, value, value) for value in (1, 2, 3, 4)),
        poll_row(12, 1, 1),
        poll_row(12, 4, 4, n=1),
        *(poll_row(20 + value, value, value) for value in received),
    ]
    for received in ((), (2,), (2, 3))
}
"""A poll skips the records 2 and 3, of which other operations receive these."""
IGNORED = [
    ["transfer"] * 3 + ["read"] * 1_200,
    ["poll", "write", "cas", "cas"],
    ["poll"],
    [f"kind-{n}" for n in range(30) for _ in range(30 - n)],
    ["\x1b[31m" + "x" * 500],
]
"""Kinds of operations, all of them ok, and none with a record."""
WITH_RECORDS = [LAGGING, CYCLE, *NAMED.values(), *SKIPS.values()]


def check_all(
    spark: SparkSession, histories: Sequence[list[Row]], ignored: Sequence[list[str]] = ()
) -> list[CheckResult]:
    """The results of the histories with these records, and then of those without records, in one job."""
    ops = [
        {"run": run, "op": op, "process": op, "f": "txn", "outcome": OK, "invoked": op - 1}
        for run, rows in enumerate(histories)
        for op in sorted({row["op"] for row in rows})
    ] + [
        {"run": run, "op": 2 * n + 2, "process": 0, "f": f, "outcome": OK, "invoked": 2 * n + 1}
        for run, names in enumerate(ignored, len(histories))
        for n, f in enumerate(names)
    ]
    micro = [row | {"run": run} for run, rows in enumerate(histories) for row in rows]
    named = {(row["run"], row["value"]) for row in micro if row["value"] >= NAMES_FROM}
    texts = [{"run": run, "id": number, "text": json.dumps("seven")} for run, number in named]
    tables = (
        pa.Table.from_pylist(ops, OPS),
        micro_table(*micro).drop(["committed"]),
        pa.Table.from_pylist(texts, NAMES),
    )
    runs = range(len(histories) + len(ignored))
    results = check_histories(*(SparkTable(spark.createDataFrame(one)) for one in tables), runs)
    assert all(isinstance(results[run], CheckResult) for run in runs)
    return [results[run] for run in runs]


@pytest.fixture(scope="module")
def results(spark: SparkSession) -> list[CheckResult]:
    """The results of all histories, in one job."""
    return check_all(spark, WITH_RECORDS, IGNORED)


def test_a_search_in_parts_is_in_not_checked(
    spark: SparkSession, results: list[CheckResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {graph.name for graph in GRAPHS}
    assert not names & results[WITH_RECORDS.index(LAGGING)].not_checked.keys()
    monkeypatch.setattr("checkers.histories.graph.LARGEST_LINES", 10)
    (result,) = check_all(spark, [LAGGING])
    partly = {graph.name for graph in GRAPHS if RW in graph.kinds}
    assert {name for name, reason in result.not_checked.items() if reason == TOO_LARGE} == partly
    assert "G1c" in result.anomalies


@pytest.mark.parametrize("number", NAMED)
def test_a_value_is_shown_as_it_was_written(results: list[CheckResult], number: int) -> None:
    result = results[WITH_RECORDS.index(NAMED[number])]
    assert result.anomalies["phantom"].examples[0].first_record.get("value") == "seven"


def test_without_reads_the_kinds_of_ignored_operations_are_named(results: list[CheckResult]) -> None:
    reasons = [result.broken[ReasonCode.NOTHING_READ].text for result in results[len(WITH_RECORDS) :]]
    nothing = "no ok operation received a record: nothing was read"
    checked = "Fencepost checks send, poll and txn"
    assert reasons[:3] == [
        f"{nothing}; its operations were passed over: 1,200 read, 3 transfer; {checked}",
        f"{nothing}; of its 4 operations 3 were passed over: 2 cas, 1 write; {checked}",
        nothing,
    ]
    assert "its operations were passed over: 30 kind-0, 29 kind-1, " in reasons[3]
    assert ", and 300 of other kinds; " in reasons[3]
    assert "1 \\x1b[31mxxx" in reasons[4] and len(reasons[4]) < 400


def test_a_cycle_names_the_last_record_of_all(results: list[CheckResult]) -> None:
    steps = ["T6 read 1 from 7, which T5 wrote", "T5 read 2 from 7, which T6 wrote"]
    assert results[WITH_RECORDS.index(CYCLE)].anomalies["G1c"].examples[0].rest["steps"] == steps


@pytest.mark.parametrize(
    ("received", "cause"),
    [((), "lost-write"), ((2,), None), ((2, 3), None)],
    ids=["both are lost", "one is lost", "none is lost"],
)
def test_a_skip_is_a_consequence_if_every_skipped_record_is_lost(
    results: list[CheckResult], received: tuple[int, ...], cause: str | None
) -> None:
    result = results[WITH_RECORDS.index(SKIPS[received])]
    assert result.anomalies["int-poll-skip"].because == cause
    assert ("lost-write" in result.anomalies) == (len(received) < 2)


def test_the_report_of_a_history_is_written_as_a_page(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("fencepost.checks.check.starting_spark", lambda *_, **__: nullcontext(spark))
    history, page = tmp_path / "cycle.edn", tmp_path / "page.html"
    history.write_text(to_edn(random_history(Random(1), 30, {"G1c"})))
    arguments = [str(history), "--allow", "poll-skip", "--out", str(page)]
    assert run_command_line(["check", "--json", *arguments]) == 1
    (step, *_) = json.loads(capsys.readouterr().out)["anomalies"]["G1c"]["examples"][0]["steps"]
    html = page.read_text(encoding="utf-8")
    assert unescape(html).count(step) >= 1
    assert f"fencepost check {' '.join(arguments)}" in html
