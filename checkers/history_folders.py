"""Histories that were written straight to Parquet: a folder with the tables of `harness.history_files`."""

from collections.abc import Sequence
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from checkers.history_files import Histories, HistoryFile, Unreadable
from checkers.jvm import cause, first_line
from checkers.parts import SPARK_ERRORS
from checkers.sources import literal
from harness.history_files.schema import FAIL, OK, TABLES
from harness.history_files.url import Url


def read_folders(spark: SparkSession, folders: Sequence[HistoryFile]) -> Histories:
    """The tables of all of them; whatever stood in their column `run`, the number given counts."""
    errors: dict[int, Unreadable] = {}
    certain: dict[int, bool] = {}  # of those whose tables are files
    for folder in folders:
        words = _wrong(spark, folder)
        if words is None and isinstance(folder.path, Path) and _is_files(folder.path):
            try:
                certain[folder.run] = _is_certain(folder.path / "ops.parquet")
            except (OSError, pa.ArrowException) as error:
                words = f"{folder.path / 'ops.parquet'} is damaged: {first_line(error)}"
        if words is not None:
            errors[folder.run] = Unreadable(folder.run, None, words)
    sound = [folder for folder in folders if folder.run not in errors]
    ops, micro, names = (_scan(spark, sound, table, TABLES[table]) for table in ("ops", "micro", "names"))
    if len(certain) < len(sound):
        return Histories(ops, micro, names, errors)
    files = [(folder.run, folder.path / "micro.parquet") for folder in sound if isinstance(folder.path, Path)]
    return Histories(ops, micro, names, errors, all(certain[folder.run] for folder in sound), files)


def _is_files(folder: Path) -> bool:
    """Whether each table is one file; only Spark reads what is a folder of them."""
    return all((folder / f"{table}.parquet").is_file() for table in TABLES)


def _is_certain(ops: Path) -> bool:
    """Whether the outcome of every operation is known."""
    groups = pq.ParquetFile(ops).iter_batches(1 << 20, columns=["outcome"])
    return all(set(pc.unique(group["outcome"]).to_pylist()) <= {OK, FAIL} for group in groups)


def _wrong(spark: SparkSession, folder: HistoryFile) -> str | None:
    """What is wrong with a folder's files, as far as their footers tell."""
    for table, schema in TABLES.items():
        path = folder.path / f"{table}.parquet"
        try:
            sound = _has(spark, path, schema)
        except (OSError, pa.ArrowException) as error:
            return f"{path} cannot be read: {first_line(error)}"
        except SPARK_ERRORS as error:
            return f"{path} cannot be read: {cause(str(error))}"
        if not sound:
            return f"{path} is not the table that it should be: its columns differ"
    return None


def _has(spark: SparkSession, path: Path | Url, schema: pa.Schema) -> bool:
    """Whether a table is of its form: a file, or what only Spark reads, many files or one at a URL."""
    if isinstance(path, Path) and not path.is_dir():
        return bool(pq.read_schema(path).equals(schema))
    found = spark.read.parquet(literal(path)).schema
    return [(column.name, column.dataType) for column in found] == [
        (column.name, column.dataType) for column in from_arrow_schema(schema)
    ]


def _scan(spark: SparkSession, folders: Sequence[HistoryFile], table: str, schema: pa.Schema) -> DataFrame:
    if not folders:
        return spark.createDataFrame(schema.empty_table())
    read = spark.read.schema(from_arrow_schema(schema))
    frames = [read.parquet(literal(folder.path / f"{table}.parquet")) for folder in folders]
    numbered = (
        frame.withColumn("run", F.lit(folder.run).cast("bigint"))
        for folder, frame in zip(folders, frames, strict=True)
    )
    return reduce(DataFrame.unionByName, numbered)
