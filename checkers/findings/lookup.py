"""Rows of a table by their keys, for the few things that examples name."""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from checkers.spark.joins import broadcast


def nested_objects(thing: Any) -> Iterable[dict[str, Any]]:
    """Every object in an example, however deep."""
    if isinstance(thing, dict):
        yield thing
        for value in thing.values():
            yield from nested_objects(value)
    elif isinstance(thing, list):
        for value in thing:
            yield from nested_objects(value)


def lookup(
    frame: DataFrame, keys: tuple[str, ...], wanted: set[tuple[int, ...]]
) -> dict[tuple[int, ...], dict[str, Any]]:
    """The rows of a table that bear the wanted keys."""
    if not wanted:
        return {}
    types = {field.name: field.dataType for field in frame.schema.fields}
    named = wanted_keys(frame.sparkSession, keys, wanted)
    named = named.select(*(F.col(key).cast(types[key]) for key in keys))
    rows = frame.join(broadcast(named), on=list(keys), how="inner").toArrow().to_pylist()
    return {tuple(row[key] for key in keys): row for row in rows}


def wanted_keys(spark: SparkSession, keys: tuple[str, ...], wanted: set[tuple[int, ...]]) -> DataFrame:
    """A table of what is wanted, which is not nothing."""
    columns = list(zip(*sorted(wanted), strict=True))
    return spark.createDataFrame(
        pa.table({key: pa.array(column, pa.int64()) for key, column in zip(keys, columns, strict=True)})
    )
