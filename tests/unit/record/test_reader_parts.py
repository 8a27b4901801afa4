"""Parts become tables as lines would: whole or missed, and nobody's if they were not finished."""

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
from harness.record.partitions import PartitionIds, unplanned, write_partitions
from harness.record.parts import PartWriter, parts_folder, remove_parts
from harness.record.tables import Tabulator

STAGES = (StageSpec("shop", ("in",), "g", "read_committed"),)
RECORD = ("a", "s", ((1, 3),), 9, 1, False, "k", None, None, None)


def reader(folder: Path, name: str = "final-read_uncommitted") -> tuple[Journal, PartWriter]:
    """The journal and the parts of a final reader."""
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


def test_what_a_reader_wrote_has_the_numbers_of_the_plan(tmp_path: Path) -> None:
    with Journal(tmp_path / "a.jsonl", 0, JournalBegan("a", role="observer")) as other:
        other.write(Polled(0, other.number(), 0, {"x/9": []}))
    journal, parts = reader(tmp_path, "final-read_committed")
    with journal:
        assert poll(journal) == 0
        parts.extend("polls", 2, 0, [0, 1], 1, [5, 6], ["a", None], 11)
        parts.extend("records", 1, 0, 5, *RECORD)
        parts.extend("expected", 1, "shop", 0, 5, "invoice", "out", 77, None, None, None, None, None)
        parts.finish()
    found = tables(tmp_path)
    names = {row["tp"]: (row["topic"], row["partition"]) for row in found["partitions"]}
    assert names == {0: ("in", 0), 1: ("raw", 0), 2: ("x", 9)}
    for row in found["polls"]:
        assert (row["run"], row["op"], names[row["tp"]], row["role"]) == (7, 1, ("raw", 0), "final")
        assert row["promised"] == "read_committed"
    assert [(row["n"], row["offset"], row["value"]) for row in found["polls"]] == [(0, 5, "a"), (1, 6, None)]
    (record,) = found["records"]
    assert (names[record["tp"]], record["key"], record["sentinel"]) == (("in", 0), "k", False)
    assert [(names[place["tp"]], place["offset"]) for place in record["inputs"]] == [(("raw", 0), 3)]
    (expected,) = found["expected"]
    assert (expected["group"], names[expected["tp"]], expected["digest"]) == ("g", ("in", 0), 77)


def two_parts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    monkeypatch.setattr(parts_module, "CHUNK_ROWS", 2)
    journal, parts = reader(folder)
    with journal:
        for offset in range(0, 4, 2):
            parts.extend("records", 2, 0, [offset, offset + 1], *RECORD[:2], [[], []], *RECORD[3:])
        parts.finish()
    return sorted(folder.glob("final-*/*.arrow"))


def missing(found: dict[str, list[dict[str, Any]]]) -> list[int]:
    return [row["missing_lines"] for row in found["journals"]]


def test_of_many_rows_there_are_several_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(two_parts(tmp_path, monkeypatch)) == 2
    found = tables(tmp_path)
    assert [row["offset"] for row in found["records"]] == [0, 1, 2, 3]
    assert missing(found) == [0]


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [Path.unlink, flip, lambda path: path.write_bytes(path.read_bytes()[:-9])])
def test_a_part_that_is_gone_or_damaged_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], None]
) -> None:
    damage(two_parts(tmp_path, monkeypatch)[0])
    found = tables(tmp_path)
    assert [row["offset"] for row in found["records"]] == [2, 3]
    assert missing(found) == [1]


def test_a_part_of_another_reader_in_its_place_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = two_parts(tmp_path, monkeypatch)
    first.write_bytes(second.read_bytes())
    assert missing(tables(tmp_path)) == [1]


def test_of_a_killed_reader_the_whole_parts_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_parts(tmp_path, monkeypatch)
    folder = tmp_path / "final-read_uncommitted"
    (folder / "2-records.unfinished").write_bytes(b"half")
    (folder / "2-records.arrow").write_bytes(b"nobody says that it is whole")
    path = tmp_path / "final-read_uncommitted.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))  # without its end
    found = tables(tmp_path)
    assert len(found["records"]) == 4
    assert [(row["missing_lines"], row["ended"]) for row in found["journals"]] == [(0, False)]


def test_a_reader_that_is_started_again_starts_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two_parts(tmp_path, monkeypatch)
    remove_parts(tmp_path / "final-read_uncommitted.jsonl")
    remove_parts(tmp_path / "never-there.jsonl")
    assert list(tmp_path.iterdir()) == []
    two_parts(tmp_path, monkeypatch)
    assert len(tables(tmp_path)["records"]) == 4


EXPECTED = ("shop", 0, 5, "invoice", "out", 77, None, None, None, None, None)


def left_by(folder: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[pa.Schema], pa.Schema]) -> None:
    """A record, and an output that is expected, of a reader whose tables had other columns."""
    rows = {
        table: dict(zip(parts_module.SCHEMAS[table].names, row, strict=True))
        for table, row in (("records", (0, 5, *RECORD)), ("expected", EXPECTED))
    }
    other = {table: change(schema) for table, schema in parts_module.SCHEMAS.items()}
    with monkeypatch.context() as theirs:
        theirs.setattr(parts_module, "SCHEMAS", other)
        journal, parts = reader(folder)
        with journal:
            for table, row in rows.items():
                parts.extend(table, 1, *(row.get(name) for name in other[table].names))
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
def test_a_part_that_has_other_columns_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[pa.Schema], pa.Schema]
) -> None:
    left_by(tmp_path, monkeypatch, change)
    found = tables(tmp_path)
    assert (found["records"], found["expected"], missing(found)) == ([], [], [2])


def test_partitions_outside_the_plan_have_numbers_of_their_own_in_every_process() -> None:
    one, other = PartitionIds({"in": 1}), PartitionIds({"in": 2})
    places = [("a", 0), ("a", 1), ("b", 0)]
    numbers = [one.planned(*place) for place in places]
    assert numbers == [other.planned(*place) for place in places] == [unplanned(*place) for place in places]
    assert len(set(numbers)) == 3 and all(-(2**31) <= number < -1 for number in numbers)
    assert (one.planned("in", 0), len(one)) == (0, 1)
