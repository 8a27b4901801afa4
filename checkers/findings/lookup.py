"""Look up rows of a table by their keys, for the few records and operations that examples name."""

from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from checkers.spark.joins import broadcast


def lookup(
    frame: DataFrame, keys: tuple[str, ...], wanted: set[tuple[int, ...]]
) -> dict[tuple[int, ...], dict[str, Any]]:
    """Return the rows whose columns `keys` have one of the wanted values, by these values."""
    if not wanted:
        return {}
    types = {field.name: field.dataType for field in frame.schema.fields}
    named = wanted_keys(frame.sparkSession, keys, wanted)
    named = named.select(*(F.col(key).cast(types[key]) for key in keys))
    rows = frame.join(broadcast(named), on=list(keys), how="inner").toArrow().to_pylist()
    return {tuple(row[key] for key in keys): row for row in rows}


def wanted_keys(spark: SparkSession, keys: tuple[str, ...], wanted: set[tuple[int, ...]]) -> DataFrame:
    """Return a table of the wanted values, with the columns `keys`. `wanted` must not be empty."""
    columns = list(zip(*sorted(wanted), strict=True))
    return spark.createDataFrame(
        pa.table({key: pa.array(column, pa.int64()) for key, column in zip(keys, columns, strict=True)})
    )
