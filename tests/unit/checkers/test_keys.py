"""Keys that are made one number: the groups stay the same, and nothing is packed that may not fit."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cases import CASES, store
from pyspark.sql import SparkSession

from checkers.judging.right_run import write_right_run
from checkers.judging.stored_runs import judge
from checkers.judging.warm_up import INPUTS
from checkers.spark.checkpoint import here
from checkers.stored import keys
from checkers.stored.extents import OFFSETS, PLACED, TPS, Extent, extent
from checkers.stored.keys import PLACE, Packing, by_operation, grouped, packing_of
from checkers.stored.sources import extent_of, read_sources, rows_of
from harness.record.schema import HISTORY, LOG
from harness.verdict import Judgement

LARGEST = (1 << 54) - 1  # of an offset, where partitions have 8 bits
PLACES = [
    (tp, offset) for tp in (0, 3, 6, None) for offset in (None, -LARGEST, -1, 0, 1, 1 << 40, LARGEST)
] * 2


@pytest.fixture
def packings(monkeypatch: pytest.MonkeyPatch) -> list[Packing | None]:
    """How places were packed, each time that it was asked."""
    asked: list[Packing | None] = []
    monkeypatch.setattr(keys, "packing_of", lambda known: asked.append(packing_of(known)) or asked[-1])
    return asked


def test_the_groups_are_the_same(several: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"run": 7, "tp": tp, "offset": offset, "n": n} for n, (tp, offset) in enumerate(PLACES)]
    types = pa.schema({"run": pa.int64(), "tp": pa.int32(), "offset": pa.int64(), "n": pa.int64()})
    frame = here(several, pa.Table.from_pylist(rows, types))
    found = []
    for known in (None, Extent(7, None, None), Extent(7, (0, 6), (-LARGEST, LARGEST))):
        monkeypatch.setattr(keys, "extent_of", lambda s, known=known: known)
        groups = grouped({}, frame, PLACE, ["sum(n) as summed", "count(1) as many"])
        plan = groups._jdf.queryExecution().executedPlan().toString()  # type: ignore[operator]
        assert ("(place#" in plan) is (known is not None and known.tps is not None)
        assert [one.dataType.simpleString() for one in groups.schema][:3] == ["bigint", "int", "bigint"]
        found.append(sorted(map(str, groups.collect())))
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == len(PLACES) / 2


def test_a_place_stands_where_its_partition_and_its_offset_would(spark: SparkSession) -> None:
    told = sorted((tp, offset) for tp, offset in PLACES if tp is not None and offset is not None)
    frame = spark.createDataFrame(list(reversed(told)), "tp int, offset bigint")
    ordered = frame.selectExpr("*", Packing(55, 255).place).orderBy("place").collect()
    assert [(row.tp, row.offset) for row in ordered] == told


MOST = (1 << 54) - 1


@pytest.mark.parametrize(
    ("tps", "offsets", "packed"),
    [
        ((0, 254), (-MOST, MOST), True),  # 255 is no partition's: 8 bits
        ((0, 254), (0, MOST + 1), False),
        ((0, 254), (-MOST - 1, 0), False),
        ((0, 255), (0, MOST >> 8), True),  # 16 bits
        ((0, 255), (0, (MOST >> 8) + 1), False),
        ((-1, 6), (0, 1), False),
        ((0, (1 << 31) - 1), (0, (1 << 30) - 1), True),
        ((0, (1 << 31) - 1), (0, 1 << 30), False),
        (None, (0, 1), False),
        ((0, 1), None, False),
    ],
)
def test_what_does_not_fit_is_not_packed(
    tps: tuple[int, int] | None, offsets: tuple[int, int] | None, packed: bool
) -> None:
    packing = packing_of(Extent(7, tps, offsets))
    assert (packing is not None) is packed
    if packing and tps:
        assert tps[1] < packing.no_tp and packing.no_tp << packing.bits < 1 << 63


RUN = 691748307533903680
RIGHT = Extent(RUN, (0, 3), (0, 40))


def changed(
    folder: Path, table: str, change: dict[str, object], size: int = 1, **options: object
) -> Extent | None:
    """What is known of a right run, when one row more stands in a table, as the first one but for what is changed.
    `size`: rows of each part of a file.
    """
    write_right_run(folder, 29)
    for path in folder.glob("*/*.parquet"):
        rows = [row | {"run": RUN} for row in pq.read_table(path).to_pylist()]
        if path.stem == table:
            rows.append(rows[0] | change)
        pq.write_table(pa.Table.from_pylist(rows, pq.read_schema(path)), path, row_group_size=size, **options)
    files = sorted(folder.glob("*/*.parquet"))
    return extent(RUN, ((path.stem, pq.read_metadata(path)) for path in files))


FAR = 1 << 50
PLACES_OF = [
    *(("polls", one) for one in ("tp", "offset")),
    *(("records", one) for one in ("tp", "offset", "inputs")),
    *(("sends", one) for one in ("tp", "offset", "inputs")),
    *(("expected", one) for one in ("tp", "offset")),
    *(("claims", one) for one in ("tp", "first", "next")),
    *(("batches", one) for one in ("tp", "base_offset", "last_offset")),
    *(("offsets", one) for one in ("tp", "log_tp", "log_offset")),
]


def test_what_is_known_of_a_right_run(tmp_path: Path) -> None:
    assert changed(tmp_path, "", {}) == RIGHT


@pytest.mark.parametrize("number", [-5, 1000])
@pytest.mark.parametrize(("table", "column"), PLACES_OF)
def test_no_place_is_beyond_what_is_known(tmp_path: Path, table: str, column: str, number: int) -> None:
    place = [{"tp": 0, "offset": 1}, {"tp": 0, "offset": number}]
    known = changed(tmp_path, table, {column: place if column == "inputs" else number})
    assert known is not None and known.run == RUN and known.tps and known.offsets
    ends = known.tps if column in ("tp", "log_tp") else known.offsets
    assert number in ends and known != RIGHT


def test_other_columns_are_no_places(tmp_path: Path) -> None:
    assert changed(tmp_path, "offsets", {"committed": FAR}) == RIGHT
    (tmp_path / "again").mkdir()
    assert changed(tmp_path / "again", "ends", {"next": FAR}) == RIGHT


@pytest.mark.parametrize("table", ["polls", "journals", "replicas"])
@pytest.mark.parametrize("run", [RUN + 1, None])
@pytest.mark.parametrize("size", [1, 1000])
def test_rows_of_another_run_are_not_taken_for_its_own(
    tmp_path: Path, table: str, run: int | None, size: int
) -> None:
    assert changed(tmp_path, table, {"run": run}, size) is None


def test_a_file_that_does_not_say_is_not_trusted(tmp_path: Path) -> None:
    assert changed(tmp_path, "", {}, write_statistics=False) is None
    (tmp_path / "again").mkdir()
    by_run = changed(tmp_path / "again", "", {}, write_statistics=["run"])
    assert by_run == Extent(RUN, None, None)


def test_a_table_without_rows_says_enough(tmp_path: Path) -> None:
    changed(tmp_path, "", {})
    path = tmp_path / "history" / "claims.parquet"
    pq.write_table(pq.read_table(path).slice(0, 0), path)
    files = sorted(tmp_path.glob("*/*.parquet"))
    assert extent(RUN, ((path.stem, pq.read_metadata(path)) for path in files)) == RIGHT


def test_nothing_is_known_of_several_runs(spark: SparkSession, tmp_path: Path) -> None:
    runs = store(tmp_path)
    assert extent_of(read_sources(spark, runs)) is None
    assert extent_of(read_sources(spark, runs[:1])) is None, "they share a folder"
    alone = CASES[0].alone(tmp_path / "alone", runs[0])
    s = read_sources(spark, [alone])
    known = extent_of(s)
    assert known is not None and known.run == 0
    other = CASES[1].alone(tmp_path / "other", runs[1])
    assert extent_of(read_sources(spark, [alone, other])) is None, "each has a folder of its own"
    assert extent_of({**s, "polls": s["polls"].where("false")}) == known
    assert rows_of(s["polls"]) == s["polls"].count()
    assert rows_of(s["polls"].where("offset >= 0")) is None


def test_what_the_files_of_a_run_say(spark: SparkSession, tmp_path: Path) -> None:
    run = write_right_run(tmp_path, INPUTS)
    path = tmp_path / "log" / "offsets.parquet"
    rows = pq.read_table(path).to_pylist()
    rows[0]["log_offset"] = FAR
    pq.write_table(pa.Table.from_pylist(rows, pq.read_schema(path)), path)
    s = read_sources(spark, [run])
    assert extent_of(s) == Extent(0, (0, 3), (0, FAR))
    assert rows_of(s["ops"]) == s["ops"].count() > INPUTS


@pytest.mark.parametrize(("rows", "sent"), [(3, True), (4, False), (None, False)])
def test_few_operations_are_sent_to_every_task(
    several: SparkSession, monkeypatch: pytest.MonkeyPatch, rows: int | None, sent: bool
) -> None:
    monkeypatch.setattr(keys, "SENT_ROWS", 3)
    monkeypatch.setattr(keys, "rows_of", lambda ops: rows)
    asked = by_operation({"ops": several.range(3)}, several.range(3))
    plan = several.range(9).join(asked, on="id")._jdf.queryExecution().logical().toString()  # type: ignore[operator]
    assert ("strategy=broadcast" in plan) is sent


def test_every_table_with_places_is_looked_at() -> None:
    named = {
        table
        for table, schema in {**HISTORY, **LOG}.items()
        if set(TPS) & set(schema.names) and set(OFFSETS) & set(schema.names)
    }
    assert set(PLACED) <= named
    assert named - set(PLACED) == {"assignments", "ends", "transactions"}  # grouped by no place


def test_alone_and_packed_a_run_is_judged_as_among_others(
    several: SparkSession,
    judged: dict[str, Judgement],
    packings: list[Packing | None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keys, "SENT_ROWS", 0)  # and joins are planned by Spark
    of_each = {next(iter(one.anomalies)): name for name, one in judged.items() if one.anomalies}
    wanted = [*sorted(of_each.values())[::20], next(case.name for case in CASES if not case.history.log)]
    runs = store(tmp_path)
    differences = []
    for run, case in enumerate(CASES):
        if case.name in wanted:
            alone = judge(several, [case.alone(tmp_path / f"run-{run}", runs[run])])[run]
            differences.append(case.differs(alone))
    assert len(differences) > 2 and not any(differences)
    assert packings and all(packings)


def test_without_journals_places_are_packed_too(
    several: SparkSession, packings: list[Packing | None], tmp_path: Path
) -> None:
    blind = judge(several, [replace(write_right_run(tmp_path, 30), blind=True)])[0]
    assert blind.anomalies == {} and blind.broken == {} and blind.coverage["outputs"] == 30
    assert packings and all(packings)


def test_runs_in_folders_of_their_own_are_not_merged(several: SparkSession, tmp_path: Path) -> None:
    runs = store(tmp_path)
    apart = [CASES[run].alone(tmp_path / f"run-{run}", runs[run]) for run in (0, 1)]
    judgements = judge(several, apart)
    assert [CASES[run].differs(judgements[run]) for run in (0, 1)] == [None, None]


def test_products_of_tables_may_be_forbidden(several: SparkSession, tmp_path: Path) -> None:
    """Tables are joined by `run` alone: it must stay a key where there is but one."""
    run = write_right_run(tmp_path, 30)
    several.conf.set("spark.sql.crossJoin.enabled", "false")
    try:
        judgement = judge(several, [run])[0]
    finally:
        several.conf.unset("spark.sql.crossJoin.enabled")
    assert judgement.anomalies == {} and judgement.broken == {}


def test_a_run_that_shares_its_folder_keeps_its_rows(
    several: SparkSession, judged: dict[str, Judgement], tmp_path: Path
) -> None:
    """Grouped without its number, its rows would be those of all others too."""
    runs = store(tmp_path)
    assert CASES[0].differs(judge(several, [runs[0]])[0]) is None
