"""Part files become tables. A damaged part counts as a missing line, and a part without an event is ignored."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.model.pipeline import StageSpec
from harness.record import parts as parts_module
from harness.record.events import JournalBegan, Polled
from harness.record.journal import Journal
from harness.record.naming import PartitionIds, unplanned
from harness.record.parts import PartWriter, parts_folder, remove_parts
from harness.record.tables import Tabulator, write_partitions

STAGES = (StageSpec("shop", ("in",), "g", "read_committed"),)
RECORD = ("a", "s", ((1, 3),), 9, 1, False, "k", None, None, None, 5)


def reader(folder: Path, name: str = "final-read_uncommitted") -> tuple[Journal, PartWriter]:
    """Return the journal and the part writer of a final reader."""
    path = folder / f"{name}.jsonl"
    journal = Journal(path, 0, JournalBegan(name, role="final"))
    return journal, PartWriter(journal, parts_folder(path))


def tables(folder: Path) -> dict[str, list[dict[str, Any]]]:
    names = PartitionIds({"in": 1, "raw": 1})
    Tabulator(7, STAGES, names).write(sorted(folder.glob("*.jsonl")), folder / "history")
    write_partitions(names, 7, folder / "history", {}, {"in", "raw"})
    return {path.stem: pq.read_table(path).to_pylist() for path in (folder / "history").glob("*.parquet")}


def poll(journal: Journal) -> int:
    op = journal.number()
    journal.write(Polled(0, op, 0))
    return op


def test_rows_of_part_files_have_the_partition_numbers_of_the_plan(tmp_path: Path) -> None:
    with Journal(tmp_path / "a.jsonl", 0, JournalBegan("a", role="observer")) as second_ids:
        second_ids.write(Polled(0, second_ids.number(), 0, {"x/9": []}))
    journal, parts = reader(tmp_path, "final-read_committed")
    with journal:
        assert poll(journal) == 0
        parts.extend("polls", 2, 0, [0, 1], 1, [5, 6], ["a", None], 11)
        parts.extend("records", 1, 0, 5, *RECORD)
        parts.extend("expected", 1, "shop", 0, 5, "invoice", "out", 77, *[None] * 5, 0)
        parts.finish()
    stored = tables(tmp_path)
    names = {row["tp"]: (row["topic"], row["partition"]) for row in stored["partitions"]}
    assert names == {0: ("in", 0), 1: ("raw", 0), 2: ("x", 9)}
    for row in stored["polls"]:
        assert (row["run"], row["op"], names[row["tp"]], row["role"]) == (7, 1, ("raw", 0), "final")
        assert row["promised"] == "read_committed"
    assert [(row["n"], row["offset"], row["value"]) for row in stored["polls"]] == [(0, 5, "a"), (1, 6, None)]
    (record,) = stored["records"]
    assert (names[record["tp"]], record["key"], record["sentinel"]) == (("in", 0), "k", False)
    assert [(names[pair["tp"]], pair["offset"]) for pair in record["inputs"]] == [(("raw", 0), 3)]
    (expected,) = stored["expected"]
    assert (expected["group"], names[expected["tp"]], expected["digest"]) == ("g", ("in", 0), 77)


def write_two_parts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    monkeypatch.setattr(parts_module, "CHUNK_ROWS", 2)
    journal, parts = reader(folder)
    with journal:
        for offset in range(0, 4, 2):
            parts.extend("records", 2, 0, [offset, offset + 1], *RECORD[:2], [[], []], *RECORD[3:])
        parts.finish()
    return sorted(folder.glob("final-*/*.arrow"))


def missing_lines(stored: dict[str, list[dict[str, Any]]]) -> list[int]:
    return [row["missing_lines"] for row in stored["journals"]]


def test_many_rows_are_written_as_several_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(write_two_parts(tmp_path, monkeypatch)) == 2
    stored = tables(tmp_path)
    assert [row["offset"] for row in stored["records"]] == [0, 1, 2, 3]
    assert missing_lines(stored) == [0]


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [Path.unlink, flip, lambda path: path.write_bytes(path.read_bytes()[:-9])])
def test_a_deleted_or_damaged_part_counts_as_a_missing_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], None]
) -> None:
    damage(write_two_parts(tmp_path, monkeypatch)[0])
    stored = tables(tmp_path)
    assert [row["offset"] for row in stored["records"]] == [2, 3]
    assert missing_lines(stored) == [1]


def test_a_part_with_the_content_of_another_part_counts_as_a_missing_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = write_two_parts(tmp_path, monkeypatch)
    first.write_bytes(second.read_bytes())
    assert missing_lines(tables(tmp_path)) == [1]


def test_the_complete_parts_of_a_killed_reader_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_two_parts(tmp_path, monkeypatch)
    folder = tmp_path / "final-read_uncommitted"
    (folder / "2-records.unfinished").write_bytes(b"half")
    (folder / "2-records.arrow").write_bytes(b"the journal does not list it")
    path = tmp_path / "final-read_uncommitted.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))  # without its end
    stored = tables(tmp_path)
    assert len(stored["records"]) == 4
    assert [(row["missing_lines"], row["ended"]) for row in stored["journals"]] == [(0, False)]


def test_a_reader_that_is_started_again_starts_from_the_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_two_parts(tmp_path, monkeypatch)
    remove_parts(tmp_path / "final-read_uncommitted.jsonl")
    remove_parts(tmp_path / "never-there.jsonl")
    assert list(tmp_path.iterdir()) == []
    write_two_parts(tmp_path, monkeypatch)
    assert len(tables(tmp_path)["records"]) == 4


EXPECTED = ("shop", 0, 5, "invoice", "out", 77, *[None] * 5, 0)


def write_other_columns(
    folder: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[pa.Schema], pa.Schema]
) -> None:
    """Write the part files of a reader whose tables have other columns."""
    rows = {
        table: dict(zip(parts_module.SCHEMAS[table].names, row, strict=True))
        for table, row in (("records", (0, 5, *RECORD)), ("expected", EXPECTED))
    }
    second_ids = {table: change(schema) for table, schema in parts_module.SCHEMAS.items()}
    with monkeypatch.context() as patch:
        patch.setattr(parts_module, "SCHEMAS", second_ids)
        journal, parts = reader(folder)
        with journal:
            for table, row in rows.items():
                parts.extend(table, 1, *(row.get(name) for name in second_ids[table].names))
            parts.finish()


def without(*names: str) -> Callable[[pa.Schema], pa.Schema]:
    return lambda schema: pa.schema([column for column in schema if column.name not in names])


@pytest.mark.parametrize(
    "change",
    [
        without("correlation_key"),
        without("offset"),
        lambda schema: without("correlation_key")(schema).append(pa.field("abuot", pa.string())),
        lambda schema: schema.append(pa.field("more", pa.string())),
        lambda schema: without("correlation_key")(schema).append(pa.field("correlation_key", pa.int64())),
    ],
)
def test_a_part_with_other_columns_counts_as_a_missing_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[pa.Schema], pa.Schema]
) -> None:
    write_other_columns(tmp_path, monkeypatch, change)
    stored = tables(tmp_path)
    assert (stored["records"], stored["expected"], missing_lines(stored)) == ([], [], [2])


def test_a_partition_outside_the_plan_has_the_same_number_in_every_process() -> None:
    first_ids, second_ids = PartitionIds({"in": 1}), PartitionIds({"in": 2})
    topic_partitions = [("a", 0), ("a", 1), ("b", 0)]
    numbers = [first_ids.planned(*pair) for pair in topic_partitions]
    assert (
        numbers
        == [second_ids.planned(*pair) for pair in topic_partitions]
        == [unplanned(*pair) for pair in topic_partitions]
    )
    assert len(set(numbers)) == 3 and all(-(2**31) <= number < -1 for number in numbers)
    assert (first_ids.planned("in", 0), len(first_ids)) == (0, 1)
