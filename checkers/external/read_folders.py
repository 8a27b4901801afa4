"""Read histories that were written straight to Parquet: folders with the tables of `harness.history_files`."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from checkers.external.consistency import find_contradictions
from checkers.external.read_files import Histories, HistoryFile, UnreadableHistory
from checkers.external.table import FileTable, HistoryTable, SparkTable, scan
from checkers.spark.driver import first_line, last_cause
from checkers.spark.errors import SPARK_ERRORS
from checkers.stored.sources import escape_glob
from harness.history_files.schema import TABLES
from harness.history_files.url import Url


def read_folders(spark: SparkSession, folders: Sequence[HistoryFile]) -> Histories:
    """Return the tables of all folders. Their column `run` is replaced by the given number."""
    errors: dict[int, UnreadableHistory] = {}
    for folder in folders:
        if (words := _wrong(spark, folder)) is not None:
            errors[folder.run] = UnreadableHistory(folder.run, None, words)
    tables = _tables(spark, [folder for folder in folders if folder.run not in errors])
    paths = {folder.run: folder.path for folder in folders}
    for run, words in find_contradictions(tables["ops"], tables["micro"], tables["names"]).items():
        errors[run] = UnreadableHistory(run, None, f"{paths[run]}: {words}")
    sound = [folder for folder in folders if folder.run not in errors]
    return Histories(errors=errors, **_tables(spark, sound))


def _tables(spark: SparkSession, sound: Sequence[HistoryFile]) -> dict[str, HistoryTable]:
    """Return the tables of `harness.history_files.schema` of all folders together."""
    all_files = all(isinstance(folder.path, Path) and _is_files(folder.path) for folder in sound)
    tables: dict[str, HistoryTable] = {}
    for name, form in TABLES.items():
        files = [(folder.run, folder.path / f"{name}.parquet") for folder in sound]
        local_files = [(run, path) for run, path in files if isinstance(path, Path)]
        tables[name] = (
            FileTable(spark, form, local_files) if all_files else SparkTable(scan(spark, form, files))
        )
    return tables


def _is_files(folder: Path) -> bool:
    """Return whether each table is one file. Only Spark can read a table that is a folder of files."""
    return all((folder / f"{table}.parquet").is_file() for table in TABLES)


def _wrong(spark: SparkSession, folder: HistoryFile) -> str | None:
    """Return the first error in a folder's files according to their footers, or None."""
    for table, schema in TABLES.items():
        path = folder.path / f"{table}.parquet"
        try:
            sound = _has(spark, path, schema)
        except (OSError, pa.ArrowException) as error:
            return f"{path} cannot be read: {first_line(error)}"
        except SPARK_ERRORS as error:
            return f"{path} cannot be read: {last_cause(str(error))}"
        if not sound:
            return f"{path} does not have the expected columns"
    return None


def _has(spark: SparkSession, path: Path | Url, schema: pa.Schema) -> bool:
    """Return whether a table has this schema. Spark reads tables of many files or at a URL."""
    if isinstance(path, Path) and not path.is_dir():
        return bool(pq.read_schema(path).equals(schema))
    spark_schema = spark.read.parquet(escape_glob(path)).schema
    return [(column.name, column.dataType) for column in spark_schema] == [
        (column.name, column.dataType) for column in from_arrow_schema(schema)
    ]
