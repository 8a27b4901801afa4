"""Seven checks of a large history, on Spark and on DuckDB: `python -m benchmarks.seven spark|duckdb FOLDER`.

`benchmarks.scale` runs each of them in its own process. It prints a JSON object with the counts of each check:

duplicates (values at several positions), inconsistent (positions with several values), lost (committed, passed by reads
and not read), torn (transactions with a lost record and a read one), jumps (steps of a process through a key that
skip a version or go back), fused (aborted, unseen, phantom: one pass by value finds all three), and the wr and ww edges
of the dependency graph.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

VIEWS = """
create view micro as select *, case when "offset" >= 0 and (polled or outcome = 0) then "offset" end as position
  from read_parquet('{folder}/micro.parquet');
create table by_value as select key, value, min(position) as low, max(position) as high,
    bool_or(polled and outcome = 0) as ok_read, bool_or(not polled and outcome = 0) as due,
    max(case when not polled then op end) as writer, bool_or(not polled and outcome = 2) as failed
  from micro group by key, value;
create table by_position as select key, position, min(value) as low, max(value) as high
  from micro where position is not null group by key, position;
create table lost as select * from by_value
  join (select key, max(low) as bound from by_value where ok_read group by key) using (key)
  where due and not ok_read and high <= bound;
create table versions as select key, value, writer, rank from by_value
  join (select key, position, low <> high as clash, row_number() over (partition by key order by position) as rank
        from by_position) as ranked using (key)
  where by_value.low = by_value.high and ranked.position = by_value.low and not clash;
"""
EDGES = pa.schema([("kind", pa.int64()), ("edges", pa.int64())])
CHECKS = {
    "duplicates": "select count(*) from by_value where low < high",
    "inconsistent": "select count(*) from by_position where low <> high",
    "lost": "select count(*) from lost",
    "torn": """select count(distinct writer) from by_value
        where ok_read and writer in (select writer from lost)""",
    "jumps": """select count(*) from (
        select rank, case when lag(op) over steps = op then lag(rank) over steps
            else struct_extract(last_value(case when outcome = 0 then {'rank': rank} end ignore nulls)
                over (steps rows between unbounded preceding and 1 preceding), 'rank') end as before
          from micro left join versions using (key, value) where polled
          window steps as (partition by process, key order by op, n))
        where rank <> before + 1""",
    "fused": """select count(*) filter (failed and ok_read), count(*) filter (due and not ok_read),
        count(*) filter (writer is null) from by_value""",
    "wr": """select count(*) from micro join by_value using (key, value)
        where polled and writer is not null and writer <> op""",
    "ww": """select count(*) from (select writer, lead(writer) over w as following,
            lead(rank) over w = rank + 1 as next from versions window w as (partition by key order by rank))
        where next and writer <> following""",
}


def with_duckdb(folder: Path) -> dict[str, object]:
    """Return for each check the count from DuckDB, with two threads."""
    import duckdb

    base = duckdb.connect(config={"threads": 2})
    base.execute(VIEWS.format(folder=str(folder).replace("'", "''")))
    counts: dict[str, object] = {}
    for name, query in CHECKS.items():
        row = base.execute(query).fetchone()
        assert row is not None
        counts[name] = row[0] if len(row) == 1 else list(row)
    return counts


def with_spark(folder: Path) -> dict[str, object]:
    """Return for each check the count from the tables from which checkers make their findings."""
    from pyspark.sql import functions as F

    from checkers.external_tables import LOST, WR, WW
    from checkers.histories.by_key import FOUND, by_key
    from checkers.histories.files import HistoryFile
    from checkers.histories.processes import TaskProcesses
    from checkers.histories.read_folders import read_folders
    from checkers.histories.table import collect
    from checkers.histories.tables import make_keyed, make_pieces, make_siblings
    from fencepost.checks.spark import starting_spark

    with starting_spark("local[*]", {}, large=True) as pending, TaskProcesses() as pool:
        read = read_folders(pending.session, [HistoryFile(0, folder)], pool)
        found = make_pieces(read.micro, certain=True).by_group(by_key, FOUND)
        pending.session()
        keyed, packs = make_keyed(found), found.part("pack")
        values = keyed.steps.where("first")
        conditions = {
            "duplicates": F.col("lowest") < F.col("highest"),
            "lost": F.expr(LOST),
            "aborted": (F.col("writer_outcome") == 2) & F.col("ok_read"),
            "unseen": F.col("ok_sent") & ~F.col("ok_read"),
            "phantom": F.col("writer").isNull(),
        }
        counted = values.select(*(F.count_if(test).alias(name) for name, test in conditions.items())).first()
        assert counted is not None
        edges = collect(packs, _counted, EDGES)
        edges_by_kind = {
            kind: pc.sum(edges.filter(pc.equal(edges["kind"], kind))["edges"]).as_py() for kind in (WR, WW)
        }
        return {
            "duplicates": counted.duplicates,
            "inconsistent": keyed.steps.where("clash").select("key", "offset").distinct().count(),
            "lost": counted.lost,
            "torn": make_siblings(keyed.steps, packs).select("op").distinct().count(),
            "jumps": keyed.jumps.where("polled").count(),
            "fused": [counted.aborted, counted.unseen, counted.phantom],
            "wr": edges_by_kind[WR],
            "ww": edges_by_kind[WW],
        }


def _counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Count in a task the edges of each kind in its packs."""
    from checkers.histories.packs import edges_of, read_packs

    for _, pack in read_packs(batches):
        counts = {kind: len(edges.src) for kind, edges in edges_of(pack).items()}
        yield pa.RecordBatch.from_pydict({"kind": list(counts), "edges": list(counts.values())}, EDGES)


if __name__ == "__main__":
    engine, history = sys.argv[1:]
    print(json.dumps((with_spark if engine == "spark" else with_duckdb)(Path(history))))
