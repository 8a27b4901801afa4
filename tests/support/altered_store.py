"""Alter one thing in a copy of a valid run's store, and state which anomalies a check must then find.

All altered copies are of one real run, and one call checks them all.
"""

import shlex
import shutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import fencepost
from fencepost.api import Result
from fencepost.cli import run_command_line
from harness.record.schema import HISTORY, LOG
from harness.results.example import Example
from reports.story.scopes import trace_commands
from tests.support.alterations import CHANGES, Copy, Row
from tests.support.altered_log import ROOTS, WARNINGS

UNKNOWN: frozenset[str] = frozenset({"unknown"})
"""Evidence is missing, so the verdict must be unknown, without findings."""
VALID: frozenset[str] = frozenset()
"""The verdict must stay valid."""


def without_record(rows: list[Row], removed: Row) -> list[Row]:
    return [row for row in rows if (row["tp"], row["offset"]) != (removed["tp"], removed["offset"])]


def remove_an_output(copy: Copy) -> None:
    removed = copy.committed_output("payments")
    copy.write("records", without_record(copy.rows("records"), removed))
    copy.write("polls", without_record(copy.rows("polls"), removed))


def hide_an_output_from_the_final_reader(copy: Copy) -> None:
    removed = copy.committed_output("payments")
    kept = [row for row in copy.rows("polls") if row["role"] != "final"]
    final = [row for row in copy.rows("polls") if row["role"] == "final"]
    copy.write("polls", kept + without_record(final, removed))


def give_two_outputs_one_value(copy: Copy) -> None:
    """Overwrite the value of another record of the same partition with the value of the output."""
    outputs = copy.committed_outputs("payments")
    first = outputs[len(outputs) // 4]
    other = next(row for row in reversed(outputs) if row["tp"] == first["tp"])
    assert other["offset"] > first["offset"]
    for table in ("records", "polls"):
        changed = copy.rows(table)
        for row in changed:
            if (row["tp"], row["offset"]) == (other["tp"], other["offset"]):
                row["value"] = first["value"]
        copy.write(table, changed)


def change_the_content_of_an_output(copy: Copy) -> None:
    changed = copy.committed_output("invoices")
    rows = copy.rows("records")
    for row in rows:
        if (row["tp"], row["offset"]) == (changed["tp"], changed["offset"]):
            row["digest"] ^= 1
    copy.write("records", rows)


def flip_the_marker_above(rows: list[Row], tp: int, offset: int, marker: str) -> None:
    """Change the marker that ends the transaction of a record, on every replica."""
    data = next(
        row
        for row in rows
        if row["leader"] and row["tp"] == tp and row["base_offset"] <= offset <= row["last_offset"]
    )
    at = min(
        row["base_offset"]
        for row in rows
        if row["tp"] == tp
        and row["control"]
        and row["producer_id"] == data["producer_id"]
        and row["base_offset"] > data["last_offset"]
    )
    for row in rows:
        if row["tp"] == tp and row["base_offset"] == at:
            row["marker"] = marker


def flip_a_commit_marker(copy: Copy) -> None:

    record = copy.committed_output("payments")
    rows = copy.rows("batches")
    flip_the_marker_above(rows, record["tp"], record["offset"], "abort")
    copy.write("batches", rows)


def flip_an_abort_marker(copy: Copy) -> None:
    """The marker of one partition, of a transaction that its worker aborted."""
    aborted = {row["op"] for row in copy.rows("ops") if row["asked"] == "abort" and row["outcome"] == "fail"}
    tps = copy.tp("invoices")
    sent = next(row for row in copy.rows("sends") if row["op"] in aborted and row["tp"] in tps)
    rows = copy.rows("batches")
    flip_the_marker_above(rows, sent["tp"], sent["offset"], "commit")
    copy.write("batches", rows)


def move_an_offset_record_back(copy: Copy) -> None:
    rows = copy.rows("offsets")
    moved = [row for row in rows if row["committed"] and row["op"] is not None][-1]
    moved["committed"] = 1
    copy.write("offsets", rows)


def drop_an_operation_of_a_journal(copy: Copy) -> None:
    """Remove an operation with its sends and claims, and count its lines as missing."""
    rows = copy.rows("ops")
    removed = next(row for row in rows if row["f"] == "txn" and row["outcome"] == "ok")
    copy.write("ops", [row for row in rows if row["op"] != removed["op"]])
    for table in ("sends", "claims"):
        copy.write(table, [row for row in copy.rows(table) if row["op"] != removed["op"]])
    journals = copy.rows("journals")
    for row in journals:
        row["missing_lines"] += 3 if row["journal"] == removed["journal"] else 0
    copy.write("journals", journals)


def remove_a_sentinel(copy: Copy) -> None:
    rows = copy.rows("ends")
    next(row for row in rows if row["sentinel_offset"] is not None)["sentinel_offset"] = None
    copy.write("ends", rows)


@dataclass(frozen=True)
class Alteration:
    change: Callable[[Copy], None]
    root: frozenset[str]  # anomalies that must be found
    also: frozenset[str] = frozenset()  # anomalies that may be found besides
    warns: frozenset[str] = frozenset()  # warnings that must be listed


ALTERATIONS = {
    alteration.change.__name__: alteration
    for alteration in (
        Alteration(remove_an_output, frozenset({"lost-write"}), frozenset({"lost-input", "unseen"})),
        Alteration(
            hide_an_output_from_the_final_reader,
            frozenset({"lost-write"}),
            frozenset({"torn-transaction", "lost-input", "unseen", "vanished"}),
        ),
        Alteration(
            give_two_outputs_one_value,
            frozenset({"duplicate"}),
            frozenset(
                {
                    "lost-write",
                    "lost-commit",
                    "corrupt",
                    "reprocessed-input",
                    "lost-input",
                    "unseen",
                    "inconsistent-offsets",
                    "offset-output-mismatch",
                }
            ),
        ),
        Alteration(change_the_content_of_an_output, frozenset({"corrupt"})),
        Alteration(
            flip_a_commit_marker,
            frozenset({"torn-transaction", "lost-commit"}),
            frozenset({"dirty-read", "lost-write", "lost-input", "offset-output-mismatch", "zombie-write"}),
        ),
        Alteration(
            flip_an_abort_marker,
            frozenset({"ghost-commit"}),
            frozenset(
                {
                    "torn-transaction",
                    "offset-output-mismatch",
                    "reprocessed-input",
                    "unseen",
                    "lost-write",
                    "lost-input",
                    "zombie-write",
                }
            ),
        ),
        Alteration(
            move_an_offset_record_back,
            frozenset({"group-offset-regression"}),
            frozenset({"offset-output-mismatch", "lost-input"}),
        ),
        Alteration(drop_an_operation_of_a_journal, UNKNOWN),
        Alteration(remove_a_sentinel, UNKNOWN),
        *(Alteration(change, frozenset({root}), frozenset(also)) for change, (root, also) in ROOTS.items()),
        *(Alteration(change, VALID, warns=frozenset({warning})) for change, warning in WARNINGS.items()),
        *(Alteration(change, frozenset(root), frozenset(also)) for change, root, also in CHANGES),
    )
}
EMPTIED = sorted(HISTORY | LOG)


def run_correct_pipeline(store: Path, brokers: int = 3) -> Result:
    """Run a correct pipeline under faults of its workers, and keep the brokers' logs."""
    return fencepost.run(
        brokers=brokers,
        nemesis=["kill-worker", "pause-worker"],
        time_limit=26,
        seed=11,
        rate=12,  # tests alter seventy copies of this run and check them together
        store=str(store),
        keep="logs",
    )


def check_alterations(
    stored: Result,
    parent: Path,
    names: Collection[str],
    emptied: Collection[str],
    alterations: Mapping[str, Alteration] = ALTERATIONS,
    *,
    blind: bool = False,
) -> dict[str, Result]:
    """Check copies of a store in one call: one for each alteration, and one for each table without its rows.

    Args:
        stored: The run, which must be valid.
        parent: The folder for the copies.
        names: Names of alterations.
        emptied: Names of tables; the result of each has the name `empty-TABLE`.
        alterations: The alterations by name.
        blind: Check as if the pipeline had kept no journals.
    """
    stored.assert_valid()
    folders = {}
    for n, name in enumerate(names, 1):
        copy = copy_run(stored.folder, parent / name, n)
        alterations[name].change(copy)
        copy.recount()
        folders[name] = copy.folder
    for n, table in enumerate(emptied, len(folders) + 1):
        copy = copy_run(stored.folder, parent / f"empty-{table}", n)
        copy.write(table, [])
        folders[f"empty-{table}"] = copy.folder
    results = fencepost.check(list(folders.values()), blind=blind)
    return dict(zip(folders, results, strict=True))


def copy_run(stored: Path, folder: Path, n: int) -> Copy:
    """Copy a run folder. The copy has the run number `n`."""
    ignored = shutil.ignore_patterns("brokers", "journals", "workers", "*.html")
    shutil.copytree(stored, folder, ignore=ignored)
    copy = Copy(folder)
    toml = (folder / "run.toml").read_text()
    old = str(copy.rows("journals")[0]["run"])
    (folder / "run.toml").write_text(toml.replace(f"id = {old}", f"id = {n}"))
    for table in HISTORY | LOG:
        copy.renumber(table, n)
    return copy


def assert_expected_findings(
    name: str, result: Result, alterations: Mapping[str, Alteration] = ALTERATIONS
) -> None:
    """Assert that a check finds the anomalies of the alteration and no others."""
    alteration = alterations[name]
    anomalies = {anomaly for anomaly, body in result.verdict["anomalies"].items() if not body["allowed"]}
    if alteration.root == UNKNOWN:
        assert result.valid is None, result.explain()
        assert not anomalies, result.explain()
    elif alteration.root == VALID:
        assert result.valid is True, result.explain()
    else:
        assert result.valid is False, result.explain()
        assert alteration.root <= anomalies, result.explain()
        assert anomalies <= alteration.root | alteration.also, result.explain()
    warnings = {anomaly for anomaly, body in result.verdict["anomalies"].items() if body.get("warning")}
    assert alteration.warns <= warnings, result.explain()


def run_trace_commands(results: Mapping[str, Result]) -> tuple[list[str], list[str]]:
    """Run the trace command of the first example of each anomaly. Return all commands, and those that failed."""
    commands: list[str] = []
    for result in results.values():
        bodies = [
            body["examples"][0] for body in result.verdict.get("anomalies", {}).values() if body["examples"]
        ]
        commands += filter(None, trace_commands(result.folder, list(map(Example.from_json, bodies))))
    return commands, [command for command in commands if run_command_line(shlex.split(command)[1:]) != 0]
