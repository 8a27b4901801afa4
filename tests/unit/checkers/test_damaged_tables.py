"""A changed bit in a table of a stored run is an error."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from checkers.spark.errors import translate_spark_errors
from harness.common.errors import AnalysisFailed, UnreadableInput
from harness.record.parquet import open_parquet
from harness.record.schema import HISTORY

ROWS = 5_000
HEADER_BYTES = 200
"""More than the head of a page, which has no checksum."""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    schema, rng = HISTORY["ends"], Random(0)
    with open_parquet(tmp_path / "ends.parquet", schema) as sheet:
        for _ in range(ROWS):
            sheet.append(
                (1, "z", "read_committed", *(rng.randrange(1 << 30) for _ in range(5)), "final", None)
            )
    return tmp_path / "ends.parquet"


def _bits(path: Path) -> Iterator[tuple[int, int]]:
    """Some bits of the pages of each column that holds enough."""
    rng = Random(1)
    group = pq.read_metadata(path).row_group(0)
    for number in range(group.num_columns):
        column = group.column(number)
        start = column.dictionary_page_offset or column.data_page_offset
        end = start + column.total_compressed_size
        if end - start > 10 * HEADER_BYTES:
            yield rng.randrange(column.data_page_offset + HEADER_BYTES, end), 1 << rng.randrange(8)


def test_a_flipped_bit_is_an_error_and_not_another_value(spark: SparkSession, table: Path) -> None:
    body = table.read_bytes()
    bits = list(_bits(table))
    assert len(bits) >= 4
    assert spark.read.parquet(str(table)).count() == ROWS
    for at, bit in bits:
        table.write_bytes(body[:at] + bytes([body[at] ^ bit]) + body[at + 1 :])
        with pytest.raises((UnreadableInput, AnalysisFailed)), translate_spark_errors():
            spark.read.parquet(str(table)).toArrow()
        with pytest.raises(OSError, match="CRC"):
            pq.read_table(table, page_checksum_verification=True)
