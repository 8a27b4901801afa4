"""Judge a small store: what loads all the classes that an analysis needs.

    python -m checkers.judging.warm_up FLAG [JAVA_HOME]

starts the driver's JVM with one more flag, judges that store, and ends the JVM in order: this is how
`checkers.spark.jvm.make_archive` has the JVM write its archive. `warm_up` does the same in a session that
is there already.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from checkers.judging.stored_runs import StoredRun, judge
from checkers.spark.session import SparkSettings, session
from checkers.stored.sources import HERE_ROWS
from harness.record.schema import HISTORY, LOG

LARGE = ("ops", "sends", "polls", "records", "expected", "batches", "transactions")
"""The tables that Spark reads from their files in a run of any length; those of a few rows are read here."""
MANY = HERE_ROWS + 1


def warm_up(spark: SparkSession, scratch: Path | None = None) -> None:
    """Judge the small store, so that the JVM has loaded and compiled what a real one needs."""
    with tempfile.TemporaryDirectory(prefix="fencepost-warm-", dir=scratch) as folder:
        for kind, schemas in (("history", HISTORY), ("log", LOG)):
            (Path(folder) / kind).mkdir()
            for table, schema in schemas.items():
                rows = [_row(schema, n) for n in range(MANY if table in LARGE else 1)]
                pq.write_table(
                    pa.Table.from_pylist(rows, schema=schema), Path(folder) / kind / f"{table}.parquet"
                )
        judge(spark, [StoredRun(0, Path(folder), 0.0)])


def _row(schema: pa.Schema, n: int) -> dict[str, Any]:
    """A row of run 0 that shares a key with no other."""
    row = {column.name: _some(column.type, n) for column in schema} | {"run": 0}
    return row | {"value": f"ok:0:{n}"} if "value" in row else row


def _some(kind: pa.DataType, n: int) -> Any:
    """A value of the type."""
    if pa.types.is_list(kind):
        return [_some(kind.value_type, n)]
    if pa.types.is_struct(kind):
        return {kind.field(at).name: _some(kind.field(at).type, n) for at in range(kind.num_fields)}
    if pa.types.is_boolean(kind):
        return True
    return "ok" if pa.types.is_string(kind) else n


if __name__ == "__main__":
    home = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    with session(SparkSettings(java_home=home, java_flags=(sys.argv[1],))) as started:
        warm_up(started)
