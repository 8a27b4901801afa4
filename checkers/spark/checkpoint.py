"""Tables that several queries look at, computed once."""

from pyspark import StorageLevel
from pyspark.sql import DataFrame


def keep(frame: DataFrame) -> DataFrame:
    """Compute it now, once, in memory (on disk, where it does not fit); what builds on it sees no history.

    Not `persist`: Spark tells its listeners of every plan with all that is cached below it, and five tables
    that build on each other fill a driver's memory with descriptions.
    """
    return frame.localCheckpoint(eager=True, storageLevel=StorageLevel.MEMORY_AND_DISK_DESER)
