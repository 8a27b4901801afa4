"""A Spark data source for history files: a task opens its blocks itself and returns Arrow batches.

An error in one file becomes a row, so that it does not fail the job for other files. No line passes through the JVM.
(Spark's text source fails the whole scan at a damaged gzip file, takes `[` in a path for a pattern, and skips names
that begin with `_`.) All tasks need access to the paths and an installed Fencepost.

Spark starts Python several times only to plan a scan. Each start imports this module, so it imports little: with the
imports of `read_files` it would take 0.2 s longer.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from checkers.histories.blocks import BLOCK_BYTES, BLOCK_ROWS, Block, read_block


def load_blocks(spark: SparkSession, blocks: Sequence[Block]) -> DataFrame:
    """Return the blocks as BLOCK_ROWS."""
    if not blocks:
        return spark.createDataFrame(BLOCK_ROWS.empty_table())
    spark.dataSource.register(HistoryBlocks)
    blocks_json = json.dumps([asdict(block) for block in blocks])
    return spark.read.format(HistoryBlocks.name()).option("blocks", blocks_json).load()


class HistoryBlocks(DataSource):
    """The blocks in the option `blocks`, as BLOCK_ROWS."""

    @classmethod
    def name(cls) -> str:
        return "fencepost-history"

    def schema(self) -> StructType:
        return from_arrow_schema(BLOCK_ROWS)

    def reader(self, schema: StructType) -> "BlockReader":
        return BlockReader([Block(**block) for block in json.loads(self.options["blocks"])])


class BlockReader(DataSourceReader):
    """A reader whose tasks each get one large block or many small ones."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self._blocks = blocks

    def partitions(self) -> Sequence[InputPartition]:
        tasks: list[list[Block]] = []
        room = 0
        for block in self._blocks:
            if not tasks or block.cost > room or len(tasks[-1]) == BLOCKS_A_TASK:
                tasks.append([])
                room = BLOCK_BYTES
            tasks[-1].append(block)
            room -= block.cost
        return [InputPartition(task) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for block in partition.value:
            yield from read_block(block)


BLOCKS_A_TASK = 256
