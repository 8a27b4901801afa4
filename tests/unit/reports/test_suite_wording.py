"""What somebody reads of a suite first: what is new, which faults acted, where to begin, and one row for one cause."""

import re
from dataclasses import replace
from xml.etree import ElementTree

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
    """Cells that differ by their seed alone: `v`alid, `i`nvalid, `u`nknown, `-` not run."""
    names = {"v": CellState.VALID, "i": CellState.INVALID, "u": CellState.UNKNOWN, "-": CellState.NOT_RUN}
    made = []
    for n, letter in enumerate(states, 1):
        name = f"shop librdkafka drawn #{n}"
        made.append(cell(state=names[letter], name=name, seed=n, more={"repeat": str(n)}, **more))
    return made


def rows(made: Suite) -> list[str]:
    return [line for line in summary(made).splitlines() if line.startswith("| ") and "---" not in line][1:]


def groups(*cells: Cell) -> list[tuple[str, str]]:
    made = suite(*cells)
    return [(one.state, one.name) for one in group_similar(made, worst_first(made.cells))]


def test_the_faults_of_all_runs_are_added_up() -> None:
    one = cell(faults={"kill-worker": 10, "partition": 0, "kill-group-coordinator": 0, "cut-worker": 0})
    other = cell(
        "orders",
        faults={"kill-worker": 8, "pause-worker": 15, "partition": 1},
        not_exercised={"kill-group-coordinator": NO_ROOM, "zombie": "no paused worker came back"},
    )
    told = faults(suite(one, other))
    assert told == (
        "Faults that acted: kill-worker 18, pause-worker 15, partition 1; never acted: cut-worker (it did not act), "
        f"kill-group-coordinator ({NO_ROOM})"
    )
    made = suite(one, other)
    assert told in draw(made) and "kill-worker 18, pause-worker 15" in summary(made)


def test_without_a_fault_no_line_tells_of_faults() -> None:
    made = suite(cell())
    assert faults(made) == ""
    assert "Faults that acted" not in draw(made) + summary(made)


def test_what_is_new_is_counted_since_the_suite_before() -> None:
    assert since(suite(cell(), INVALID)) == "1 new since 2026-11-23 20:00 UTC"
    assert since(suite(cell())) == "nothing new since 2026-11-23 20:00 UTC"
    assert since(suite(INVALID, previous=None)) == ""
    assert "1 new since 2026-11-23 20:00 UTC." in draw(suite(INVALID))


def test_what_is_new_is_told_with_its_reason() -> None:
    made = suite(INVALID)
    line = "orders librdkafka kill-broker: invalid, was valid: 4 inputs took effect more than once"
    assert f"- {line}" in summary(made)
    (listed,) = re.findall(r"<li><a href=\"#cell-1\">.*</li>", draw(made))
    assert "4 inputs took effect" in listed


def test_a_bad_run_has_its_first_example_or_what_to_do() -> None:
    assert lead(INVALID) == f"First: {EXAMPLE}"
    assert lead(UNKNOWN) == "What to do: repeat it with another `--seed`"
    assert lead(cell(state=CellState.KNOWN, first=EXAMPLE)) == ""
    assert lead(cell(state=CellState.FAILED)) == ""
    made = suite(INVALID, UNKNOWN)
    for words in (EXAMPLE, "What to do: repeat it with another"):
        assert words in draw(made) and words in summary(made)


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
    assert [one.tag for one in caught] == ["properties", "system-out"]
    failure = missed.find("failure")
    assert failure is not None and "expected lost-input" in failure.get("message", "")


def test_runs_that_differ_by_their_seed_alone_are_one_row() -> None:
    made = suite(*seeds("iiiiiiiiii", new=False, flake=Flake(30, 2)))
    assert groups(*made.cells) == [("invalid", "shop librdkafka drawn (10 of 10 seeds)")]
    (row,) = rows(made)
    assert "20 of 300" in row


def test_a_row_tells_the_fewest_and_the_most_of_each_anomaly_and_whose_example_it_has() -> None:
    few, many = (
        cell(
            state=CellState.INVALID,
            name=f"shop #{n}",
            more={"repeat": n},
            seed=n,
            anomalies=found,
            reason="why",
        )
        for n, found in ((1, {"G0": 3, "G1c": 2}), (2, {"G0": 1_700, "G1c": 2}))
    )
    (row,) = rows(suite(few, many))
    assert "G0 3 to 1,700, G1c 2<br>Seed 1: why" in row
    none, some = seeds("uu", codes=("not-drained",))
    (row,) = rows(suite(none, replace(some, anomalies={"lost-input": 9})))
    assert "lost-input 0 to 9<br>" in row
    (row,) = rows(suite(few))
    assert "G0 3, G1c 2<br>why" in row


def test_a_row_counts_those_that_ran() -> None:
    assert groups(*seeds("viiv-", new=False)) == [("invalid", "shop librdkafka drawn (2 of 4 seeds)")]
    assert groups(*seeds("vi", new=False)) == [("invalid", "shop librdkafka drawn #2 (1 of 2 seeds)")]


def test_seeds_that_a_suite_file_gives_are_one_row_as_well() -> None:
    cells = [
        cell(state=CellState.INVALID, name=f"shop drawn seed={n} rate=5", more={"seed": n, "rate": "5"})
        for n in "34"
    ]
    assert groups(*cells) == [("invalid (new)", "shop drawn rate=5 (2 of 2 seeds)")]


def test_another_cause_is_another_row() -> None:
    one, other, unknown, not_the_same = seeds("iiuu", codes=("fault-did-not-act",), anomalies={"G0": 1})
    made = group_similar(
        suite(one),
        [
            one,
            cell(state=CellState.INVALID, name=other.name, more=other.more, anomalies={"G0": 7, "G1c": 1}),
            unknown,
            cell(
                state=CellState.UNKNOWN,
                name=not_the_same.name,
                more=not_the_same.more,
                codes=("not-drained",),
            ),
        ],
    )
    assert [len(group.cells) for group in made] == [1, 1, 1, 1]
    assert len(group_similar(suite(one, other), [one, other])) == 1
    assert len(group_similar(suite(unknown), [unknown, not_the_same])) == 1


def test_a_failure_that_names_its_log_is_the_same_for_each_seed() -> None:
    cells = [
        cell(state=CellState.FAILED, name=f"shop #{n}", more={"repeat": str(n)}, slug=f"{n:03}-shop-{n}")
        for n in range(1, 4)
    ]
    told = [
        cell(**{**vars(one), "reason": f"ended by SIGKILL: logs/{one.slug}.log says more"}) for one in cells
    ]
    assert groups(*told) == [("failed", "shop (3 of 3 seeds)")]


def test_a_row_says_how_many_of_its_runs_are_new() -> None:
    old, *new = seeds("iii", new=True)
    old = cell(**{**vars(old), "new": False})
    assert groups(old, *new) == [("invalid (2 new)", "shop librdkafka drawn (3 of 3 seeds)")]
