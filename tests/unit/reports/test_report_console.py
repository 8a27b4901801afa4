from pathlib import Path

import pytest
from msgspec import structs

from harness.results.reasons import EXTERNAL_ONLY, KILLED, NO_AGGREGATE, NO_ORDER, Reason, ReasonCode
from harness.results.recovery import EntryCounts, Lag, PartitionLag
from harness.results.verdict import Validity
from reports.console import allowed_and_unknown, last_lines
from tests.support.findings import findings_of
from tests.support.synthetic_store import REPROCESSED_INPUT, make_verdict, operation, write_store


def test_the_last_lines_are_verdict_reason_report_and_command() -> None:
    lines = last_lines(make_verdict(Validity.INVALID), Path("store/shop/1"), "fencepost run --seed 42")
    assert lines[-4:] == [
        "verdict  INVALID",
        ("reason   3 inputs took effect more than once, after worker shop-2.0 was paused and replaced"),
        "report   store/shop/1/report.html",
        "repeat   fencepost run --seed 42",
    ]
    assert lines[0] == "  reprocessed-input        3 inputs took effect more than once"
    assert lines[1].startswith("    first: input purchases/1 offset 812 took effect twice: ")
    assert lines[2].endswith("because of reprocessed-input")


def test_permitted_findings_are_counted_separately() -> None:
    verdict = make_verdict(Validity.INVALID)
    findings = structs.replace(verdict.anomalies["reprocessed-input"], permitted=41)
    lines = last_lines(
        structs.replace(verdict, anomalies={**verdict.anomalies, "reprocessed-input": findings}),
        Path("s"),
        "c",
    )
    assert lines[0].endswith(
        "took effect more than once; 41 more are permitted by the guarantee of their stage"
    )


def test_the_first_example_that_can_be_traced_has_its_command(tmp_path: Path) -> None:
    folder = write_store(tmp_path / "a run", make_verdict(Validity.VALID))
    traceable = findings_of(1, [{"operation": operation(60, name="payments-1.0:0")}])
    findings = {"reprocessed-input": findings_of(1, [REPROCESSED_INPUT]), "lost-commit": traceable}
    lines = last_lines(make_verdict(Validity.INVALID, anomalies=findings), folder, "c")
    assert f"  step by step: fencepost trace '{folder}' --op payments-1.0:0" in lines
    allowed = {"contended-id": structs.replace(traceable, allowed=True, warning=True)}
    for verdict in (make_verdict(Validity.VALID), make_verdict(Validity.VALID, anomalies=allowed)):
        assert not any("trace" in line for line in last_lines(verdict, folder, "c"))


@pytest.mark.parametrize("reason", [EXTERNAL_ONLY, NO_ORDER, NO_AGGREGATE])
def test_a_check_that_does_not_apply_does_not_lack_evidence(reason: Reason) -> None:
    lines = last_lines(make_verdict(Validity.VALID, not_checked={"G1c": reason}), Path("s"), "c")
    assert not any("no evidence" in line for line in lines)


def test_recorded_values_cannot_move_the_cursor() -> None:
    lines = last_lines(
        make_verdict(Validity.VALID, summary="\x1b[2Jverdict\n  valid"), Path("s"), "\x1b]0;x\x07"
    )
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize(
    ("entries", "count"),
    [
        (EntryCounts(committed_records=2), 1),
        (EntryCounts(open_records=1), 1),
        (EntryCounts(aborted_records=3, commit_markers=1, abort_markers=1, sentinels=1), 0),
        (None, 0),
    ],
)
def test_a_line_says_what_is_left_only_if_something_is_left(entries: EntryCounts | None, count: int) -> None:
    verdict = make_verdict(
        Validity.UNKNOWN,
        left=Lag.of([PartitionLag("s", "g", "a", 0, 1, 9, entries, "" if entries else "why")]),
    )
    for lines in (last_lines(verdict, Path("s"), "c"), list(allowed_and_unknown(verdict))):
        assert len([line for line in lines if line.lstrip().startswith("left: ")]) == count


def test_consequences_of_a_reason_are_counted_behind_it() -> None:
    part = Reason(ReasonCode.INCOMPLETE_EVIDENCE, "nothing was read", "nothing read", because="run-killed")
    line = f"unknown: {KILLED.text} (and 1 consequence of it)"
    killed = make_verdict(Validity.UNKNOWN, unknown_because=[KILLED, part])
    assert [each for each in last_lines(killed, Path("s"), "c") if "unknown: " in each] == [f"  {line}"]
    assert not any(each.startswith("unknown: ") for each in allowed_and_unknown(killed)), (
        "the summary says it already"
    )
    invalid = make_verdict(Validity.INVALID, unknown_because=[KILLED, part])
    assert line in list(allowed_and_unknown(invalid))
