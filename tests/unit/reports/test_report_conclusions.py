"""The parts of the report that say what was under test, what it printed, and how often a finding came."""

from pathlib import Path

from msgspec import structs

from harness.results.conclusions import (
    Affected,
    Contrast,
    ControlRun,
    NotDecided,
    Origin,
    OriginKind,
    OverTime,
)
from harness.results.verdict import AnomalyFindings, Validity, Verdict
from reports.html.page import densities, draw, earlier_runs
from reports.html.under_test import observed, program_logs
from tests.support.html_page import HOSTILE, Page
from tests.support.log_tables import IN, OUT, batch, marker, offset_commit, plain, write_run
from tests.support.synthetic_store import make_verdict, write_store


def words(
    folder: Path, *batches: dict[str, object], offsets: list[dict[str, object]] | None = None
) -> dict[str, str]:
    tables = {"batches": batches, **({"offsets": offsets} if offsets else {})}
    return {fact.subject: fact.words for fact in observed(write_run(folder, **tables))}


def test_records_are_counted_by_how_they_were_written(tmp_path: Path) -> None:
    facts = words(
        tmp_path,
        plain(IN, 0, 1),  # the feeder's topic is not of the pipeline
        batch(OUT, 0, 2, 3),
        marker(OUT, 3, 2),
        batch(OUT, 4, 3, 2, transactional=False),
        plain(OUT, 6, 4),
    )
    assert facts == {
        "topic out": "records written: 3 in transactions, 2 by idempotent producers outside transactions and 1 by "
        "producers that are not idempotent"
    }


def test_offset_commits_have_their_kind_and_their_interval(tmp_path: Path) -> None:
    outside = [offset_commit(n, n, 5.0 * n, transactional=False) for n in range(1, 6)]
    other = [offset_commit(9, 1, 1, group="fencepost-warm-up")]
    facts = words(tmp_path, plain(OUT, 0, 1), offsets=[*outside, *other])
    assert (
        facts["group g"] == "5 offset commits: 5 outside any transaction; in each partition about every 5.0 s"
    )
    assert list(facts) == ["topic out", "group g"]


def test_without_logs_nothing_was_observed(tmp_path: Path) -> None:
    assert observed(write_run(tmp_path)) == []


def test_the_last_lines_of_programs_are_shown_without_secrets(tmp_path: Path) -> None:
    workers = tmp_path / "workers"
    workers.mkdir()
    (workers / "bill-1.0.log").write_text(
        "".join(f"line {n}\n" for n in range(100)) + "sasl.password=hunter2\n"
    )
    (workers / "feeder.log").write_text("x\n")
    (workers / "bill-2.0.log").write_text("")
    (log,) = program_logs(tmp_path, {})
    assert (log.name, log.href, log.lines[0]) == ("bill-1.0", "workers/bill-1.0.log", "line 89")
    assert "hunter2" not in log.lines[-1] and "sasl.password" in log.lines[-1]


def bad(**more: object) -> Verdict:
    about = Affected(
        HOSTILE,
        7,
        29,
        [Contrast(HOSTILE, HOSTILE, HOSTILE, 7, 9, 0, 20)],
        [HOSTILE],
        OverTime(3.0, 2, [4, 0, 3]),
    )
    findings = AnomalyFindings(7, affected=about, origin=Origin(OriginKind.FAULT, HOSTILE))
    return structs.replace(make_verdict(Validity.INVALID), anomalies={"lost-input": findings}, **more)


def test_all_instances_are_on_the_axis() -> None:
    (pane,) = densities(bad())
    assert list(pane.at_s) == [3.0, 5.0, 7.0, 9.0]
    assert list(pane.lines[0].values) == [2.0, 0.0, 1.5, 1.5]


def test_conclusions_of_hostile_texts_cannot_leave_their_place(tmp_path: Path) -> None:
    rows = NotDecided(HOSTILE, 1, 2, HOSTILE, HOSTILE, HOSTILE, {HOSTILE: 1}, sentences=[HOSTILE])
    control = ControlRun(HOSTILE, True, HOSTILE, {HOSTILE: 1})
    write_store(tmp_path, bad())
    html = draw(tmp_path, bad(not_decided=[rows], control=control))
    page = Page(html)
    assert {"origin", "not-decided"} <= set(page.all("id"))
    names = [tag for tag, _ in page.tags]
    assert (names.count("script"), names.count("style"), names.count("img")) == (4, 3, 0)
    assert not any(character in html for character in "\x00\x1b\u202e")


def test_earlier_runs_of_the_name_are_counted(tmp_path: Path) -> None:
    for n, verdict in enumerate([bad(), make_verdict(Validity.VALID), bad()]):
        (tmp_path / str(n)).mkdir()
        verdict.save(tmp_path / str(n) / "verdict.json")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "verdict.json").write_text("{")
    runs, (row,) = earlier_runs(tmp_path / "2", bad())
    assert (runs, row.anomaly, row.hits, row.runs) == (3, "lost-input", 2, 3)


def test_the_first_run_of_a_name_has_no_earlier_ones(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    assert earlier_runs(tmp_path / "1", bad()) == (1, [])
