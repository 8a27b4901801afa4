"""Texts about a suite: new failures, faults that acted, first examples, and one row for each cause."""

import re
from xml.etree import ElementTree

from msgspec import structs

from harness.results.suite import Cell, CellState, Flake, Suite
from reports.html.suite import draw
from reports.suites.junit import junit
from reports.suites.markdown import summary
from reports.suites.wording import faults, group_similar, lead, since, worst_first
from tests.support.suites import cell, suite

NO_ROOM = "did not fit into 30 s; --time-limit 88 has room for every fault"
EXAMPLE = "input purchases/1 offset 812 took effect twice: invoices/3 offset 417 by shop-2.0:60"
INVALID = cell("orders", state=CellState.INVALID, first=EXAMPLE)
UNKNOWN = cell(
    "txn", state=CellState.UNKNOWN, remedy="repeat it with another `--seed`", codes=("fault-did-not-act",)
)


def seeds(states: str, **more: object) -> list[Cell]:
    """Cells that differ only by their seeds: `v`alid, `i`nvalid, `u`nknown, `-` not run."""
    names = {"v": CellState.VALID, "i": CellState.INVALID, "u": CellState.UNKNOWN, "-": CellState.NOT_RUN}
    cells = []
    for n, letter in enumerate(states, 1):
        name = f"shop librdkafka drawn #{n}"
        cells.append(cell(state=names[letter], name=name, seed=n, more={"repeat": str(n)}, **more))
    return cells


def rows(suite_of_cells: Suite) -> list[str]:
    return [
        line for line in summary(suite_of_cells).splitlines() if line.startswith("| ") and "---" not in line
    ][1:]


def groups(*cells: Cell) -> list[tuple[str, str]]:
    suite_of_cells = suite(*cells)
    return [
        (group.state, group.name)
        for group in group_similar(suite_of_cells, worst_first(suite_of_cells.cells))
    ]


def test_the_faults_of_all_runs_are_added_up() -> None:
    first = cell(faults={"kill-worker": 10, "partition": 0, "kill-group-coordinator": 0, "cut-worker": 0})
    second = cell(
        "orders",
        faults={"kill-worker": 8, "pause-worker": 15, "partition": 1},
        not_exercised={"kill-group-coordinator": NO_ROOM, "zombie": "no paused worker came back"},
    )
    expected = faults(suite(first, second))
    assert expected == (
        "Faults that acted: kill-worker 18, pause-worker 15, partition 1; never acted: cut-worker (it did not act), "
        f"kill-group-coordinator ({NO_ROOM})"
    )
    two_cells = suite(first, second)
    assert expected in draw(two_cells) and "kill-worker 18, pause-worker 15" in summary(two_cells)


def test_a_suite_without_faults_has_no_line_about_faults() -> None:
    one_suite = suite(cell())
    assert faults(one_suite) == ""
    assert "Faults that acted" not in draw(one_suite) + summary(one_suite)


def test_new_failures_are_counted_since_the_previous_suite() -> None:
    assert since(suite(cell(), INVALID)) == "1 new since 2026-11-23 20:00 UTC"
    assert since(suite(cell())) == "nothing new since 2026-11-23 20:00 UTC"
    assert since(suite(INVALID, previous=None)) == ""
    assert "1 new since 2026-11-23 20:00 UTC." in draw(suite(INVALID))


def test_a_new_failure_is_listed_with_its_reason() -> None:
    one_suite = suite(INVALID)
    line = "orders librdkafka kill-broker: invalid, was valid: 4 inputs took effect more than once"
    assert f"- {line}" in summary(one_suite)
    (item,) = re.findall(r"<li><a href=\"#cell-1\">.*</li>", draw(one_suite))
    assert "4 inputs took effect" in item


def test_a_bad_run_has_its_first_example_or_its_remedy() -> None:
    assert lead(INVALID) == f"First: {EXAMPLE}"
    assert lead(UNKNOWN) == "What to do: repeat it with another `--seed`"
    assert lead(cell(state=CellState.KNOWN, first=EXAMPLE)) == ""
    assert lead(cell(state=CellState.FAILED)) == ""
    one_suite = suite(INVALID, UNKNOWN)
    for words in (EXAMPLE, "What to do: repeat it with another"):
        assert words in draw(one_suite) and words in summary(one_suite)


def test_a_row_has_anomalies_version_and_the_path_of_the_report() -> None:
    (row,) = rows(suite(INVALID))
    for words in ("reprocessed-input 4<br>4 inputs", "| 4.3.1 |", f"`{INVALID.run}/report.html`"):
        assert words in row
    (row,) = rows(suite(cell(state=CellState.FAILED)))
    assert "`logs/shop-librdkafka-kill-broker.log`" in row


def test_a_failure_in_junit_has_a_body_and_names_its_anomalies() -> None:
    root = ElementTree.fromstring(junit(suite(INVALID, UNKNOWN, cell(state=CellState.FAILED))))
    (failure,) = root.iter("failure")
    assert failure.get("message", "").startswith("reprocessed-input: 4 inputs took effect")
    assert failure.get("type") == "invalid"
    assert failure.text == f"First: {EXAMPLE}\nreport: {INVALID.run}/report.html"
    unknown, failed = root.iter("error")
    assert unknown.text == f"What to do: repeat it with another `--seed`\nreport: {UNKNOWN.run}/report.html"
    assert failed.text == "log: logs/shop-librdkafka-kill-broker.log"


def test_a_caught_defect_passes_in_junit_and_a_missed_one_fails() -> None:
    root = ElementTree.fromstring(
        junit(suite(cell(state=CellState.CAUGHT), cell("txn", state=CellState.MISSED)))
    )
    caught, missed = root.iter("testcase")
    assert [element.tag for element in caught] == ["properties", "system-out"]
    failure = missed.find("failure")
    assert failure is not None and "expected lost-input" in failure.get("message", "")


def test_runs_that_differ_only_by_their_seeds_are_one_row() -> None:
    one_suite = suite(*seeds("iiiiiiiiii", new=False, flake=Flake(30, 2)))
    assert groups(*one_suite.cells) == [("invalid", "shop librdkafka drawn (10 of 10 seeds)")]
    (row,) = rows(one_suite)
    assert "20 of 300" in row


def test_a_row_has_the_range_of_each_count_and_the_seed_of_its_example() -> None:
    low, high = (
        cell(
            state=CellState.INVALID,
            name=f"shop #{n}",
            more={"repeat": n},
            seed=n,
            anomalies=counts,
            reason="why",
        )
        for n, counts in ((1, {"G0": 3, "G1c": 2}), (2, {"G0": 1_700, "G1c": 2}))
    )
    (row,) = rows(suite(low, high))
    assert "G0 3 to 1,700, G1c 2<br>Seed 1: why" in row
    none, some = seeds("uu", codes=("not-drained",))
    (row,) = rows(suite(none, structs.replace(some, anomalies={"lost-input": 9})))
    assert "lost-input 0 to 9<br>" in row
    (row,) = rows(suite(low))
    assert "G0 3, G1c 2<br>why" in row


def test_a_row_counts_only_the_runs_that_were_started() -> None:
    assert groups(*seeds("viiv-", new=False)) == [("invalid", "shop librdkafka drawn (2 of 4 seeds)")]
    assert groups(*seeds("vi", new=False)) == [("invalid", "shop librdkafka drawn #2 (1 of 2 seeds)")]


def test_seeds_from_a_suite_file_are_one_row() -> None:
    cells = [
        cell(state=CellState.INVALID, name=f"shop drawn seed={n} rate=5", more={"seed": n, "rate": "5"})
        for n in "34"
    ]
    assert groups(*cells) == [("invalid (new)", "shop drawn rate=5 (2 of 2 seeds)")]


def test_another_cause_is_another_row() -> None:
    first, second, unknown, other_unknown = seeds("iiuu", codes=("fault-did-not-act",), anomalies={"G0": 1})
    groups_of_cells = group_similar(
        suite(first),
        [
            first,
            cell(state=CellState.INVALID, name=second.name, more=second.more, anomalies={"G0": 7, "G1c": 1}),
            unknown,
            cell(
                state=CellState.UNKNOWN,
                name=other_unknown.name,
                more=other_unknown.more,
                codes=("not-drained",),
            ),
        ],
    )
    assert [len(group.cells) for group in groups_of_cells] == [1, 1, 1, 1]
    assert len(group_similar(suite(first, second), [first, second])) == 1
    assert len(group_similar(suite(unknown), [unknown, other_unknown])) == 1


def test_failures_that_differ_only_by_the_names_of_their_logs_are_one_row() -> None:
    cells = [
        cell(state=CellState.FAILED, name=f"shop #{n}", more={"repeat": str(n)}, slug=f"{n:03}-shop-{n}")
        for n in range(1, 4)
    ]
    with_logs = [
        structs.replace(failed, reason=f"ended by SIGKILL: logs/{failed.slug}.log says more")
        for failed in cells
    ]
    assert groups(*with_logs) == [("failed", "shop (3 of 3 seeds)")]


def test_a_row_says_how_many_of_its_runs_are_new() -> None:
    old, *new = seeds("iii", new=True)
    old = structs.replace(old, new=False)
    assert groups(old, *new) == [("invalid (2 new)", "shop librdkafka drawn (3 of 3 seeds)")]
