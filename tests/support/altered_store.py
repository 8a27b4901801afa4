"""The checker is checked: one thing of a valid run's store is altered at a time, and it must be seen.

All alterations are copies of one real run, judged in one call.
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
from reports.trace.commands import trace_commands
from tests.support.alterations import ONE_BY_ONE, Copy, Row
from tests.support.altered_log import ROOTS, WARNINGS

UNKNOWN: frozenset[str] = frozenset({"unknown"})
"""The evidence is gone, so nothing is to be found."""
VALID: frozenset[str] = frozenset()
"""Nothing is wrong."""


def without(rows: list[Row], gone: Row) -> list[Row]:
    return [row for row in rows if (row["tp"], row["offset"]) != (gone["tp"], gone["offset"])]


def remove_an_output(copy: Copy) -> None:
    gone = copy.committed_output("payments")
    copy.write("records", without(copy.rows("records"), gone))
    copy.write("polls", without(copy.rows("polls"), gone))


def hide_an_output_from_the_final_reader(copy: Copy) -> None:
    gone = copy.committed_output("payments")
    kept = [row for row in copy.rows("polls") if row["role"] != "final"]
    final = [row for row in copy.rows("polls") if row["role"] == "final"]
    copy.write("polls", kept + without(final, gone))


def give_an_output_twice(copy: Copy) -> None:
    """The same value at the place of another record of its partition."""
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


def change_what_an_output_holds(copy: Copy) -> None:
    changed = copy.committed_output("invoices")
    rows = copy.rows("records")
    for row in rows:
        if (row["tp"], row["offset"]) == (changed["tp"], changed["offset"]):
            row["digest"] ^= 1
    copy.write("records", rows)


def flip_the_marker_above(rows: list[Row], tp: int, offset: int, marker: str) -> None:
    """Change what ended the transaction of a record in its partition, on every replica."""
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
    """In one partition of one transaction."""
    record = copy.committed_output("payments")
    rows = copy.rows("batches")
    flip_the_marker_above(rows, record["tp"], record["offset"], "abort")
    copy.write("batches", rows)


def flip_an_abort_marker(copy: Copy) -> None:
    """In one partition of a transaction that its worker aborted on purpose."""
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


def drop_a_line_of_a_journal(copy: Copy) -> None:
    """One operation with all that it said, and its line's number missing."""
    rows = copy.rows("ops")
    gone = next(row for row in rows if row["f"] == "txn" and row["outcome"] == "ok")
    copy.write("ops", [row for row in rows if row["op"] != gone["op"]])
    for table in ("sends", "claims"):
        copy.write(table, [row for row in copy.rows(table) if row["op"] != gone["op"]])
    journals = copy.rows("journals")
    for row in journals:
        row["missing_lines"] += 3 if row["journal"] == gone["journal"] else 0
    copy.write("journals", journals)


def lose_a_sentinel(copy: Copy) -> None:
    rows = copy.rows("ends")
    next(row for row in rows if row["sentinel_offset"] is not None)["sentinel_offset"] = None
    copy.write("ends", rows)


@dataclass(frozen=True)
class Alteration:
    change: Callable[[Copy], None]
    root: frozenset[str]  # what must be found
    also: frozenset[str] = frozenset()  # what may follow from it
    warns: frozenset[str] = frozenset()  # the warnings that must be listed


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
            give_an_output_twice,
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
        Alteration(change_what_an_output_holds, frozenset({"corrupt"})),
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
        Alteration(drop_a_line_of_a_journal, UNKNOWN),
        Alteration(lose_a_sentinel, UNKNOWN),
        *(Alteration(change, frozenset({root}), frozenset(also)) for change, (root, also) in ROOTS.items()),
        *(Alteration(change, VALID, warns=frozenset({warning})) for change, warning in WARNINGS.items()),
        *(Alteration(change, frozenset(root), frozenset(also)) for change, root, also in ONE_BY_ONE),
    )
}
EMPTIED = sorted(HISTORY | LOG)


def a_right_run(store: Path) -> Result:
    """A run of a correct pipeline under the faults that strike its workers, with its logs."""
    return fencepost.run(
        nemesis=["kill-worker", "pause-worker"],
        time_limit=26,
        seed=11,
        rate=12,  # seventy copies of it are altered, and judged together
        store=str(store),
        keep="logs",
    )


def judged(
    stored: Result,
    place: Path,
    names: Collection[str],
    emptied: Collection[str],
    alterations: Mapping[str, Alteration] = ALTERATIONS,
    *,
    blind: bool = False,
) -> dict[str, Result]:
    """These alterations by name, and the store without each of these tables (`empty-TABLE`), judged in one call.
    `blind`: as if the pipeline had kept no journals.
    """
    stored.assert_valid()
    folders = {}
    for n, name in enumerate(names, 1):
        copy = copy_of(stored.folder, place / name, n)
        alterations[name].change(copy)
        copy.recount()
        folders[name] = copy.folder
    for n, table in enumerate(emptied, len(folders) + 1):
        copy = copy_of(stored.folder, place / f"empty-{table}", n)
        copy.write(table, [])
        folders[f"empty-{table}"] = copy.folder
    results = fencepost.check(list(folders.values()), blind=blind)
    return dict(zip(folders, results, strict=True))


def copy_of(stored: Path, folder: Path, n: int) -> Copy:
    """A copy of that run, as run `n`."""
    ignored = shutil.ignore_patterns("brokers", "journals", "workers", "*.html")
    shutil.copytree(stored, folder, ignore=ignored)
    copy = Copy(folder)
    toml = (folder / "run.toml").read_text()
    old = str(copy.rows("journals")[0]["run"])
    (folder / "run.toml").write_text(toml.replace(f"id = {old}", f"id = {n}"))
    for table in HISTORY | LOG:
        copy.renumber(table, n)
    return copy


def check_found(name: str, result: Result, alterations: Mapping[str, Alteration] = ALTERATIONS) -> None:
    """What was altered is found, and nothing but what follows from it."""
    alteration = alterations[name]
    found = {anomaly for anomaly, body in result.verdict["anomalies"].items() if not body["allowed"]}
    if alteration.root == UNKNOWN:
        assert result.valid is None, result.explain()
        assert not found, result.explain()
    elif alteration.root == VALID:
        assert result.valid is True, result.explain()
    else:
        assert result.valid is False, result.explain()
        assert alteration.root <= found, result.explain()
        assert found <= alteration.root | alteration.also, result.explain()
    warned = {anomaly for anomaly, body in result.verdict["anomalies"].items() if body.get("warning")}
    assert alteration.warns <= warned, result.explain()


def traced(results: Mapping[str, Result]) -> tuple[list[str], list[str]]:
    """Of the first example of each anomaly: the commands that are named to trace it, and those that had no answer."""
    named = []
    for result in results.values():
        bodies = [body["examples"][0] for body in result.verdict["anomalies"].values() if body["examples"]]
        named += list(filter(None, trace_commands(result.folder, list(map(Example.from_json, bodies)))))
    return named, [command for command in named if run_command_line(shlex.split(command)[1:]) != 0]
