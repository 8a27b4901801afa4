"""Check a small stored run, to load and compile the classes that an analysis needs.

    python -m checkers.checking.warm_up FLAG [JAVA_HOME]

starts the driver's JVM with one more flag, checks the run, and ends the JVM in order. This is how
`checkers.spark.jvm.make_archive` makes the JVM write its archive. The function `warm_up` does the same in a session
that exists already.
"""

import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

from pyspark.sql import SparkSession

from checkers.checking.stored_runs import check_runs
from checkers.checking.valid_run import write_valid_run
from checkers.spark.partitions import several_partitions
from checkers.spark.session import SparkSettings, session
from checkers.stored.sources import INLINE_ROWS

INPUTS = INLINE_ROWS + 1
"""The number of inputs, so high that Spark reads the tables from files, as it does for long runs. Smaller tables are
inlined.
"""


def warm_up(spark: SparkSession, scratch: Path | None = None, *, large: bool = False) -> None:
    """Check a small valid run, so that the JVM loads and compiles the code that such a run needs.

    Args:
        large: use several partitions, as a check of a large run does
    """
    several = several_partitions(spark) if large else nullcontext()
    with several, tempfile.TemporaryDirectory(prefix="fencepost-warm-", dir=scratch) as folder:
        check_runs(spark, [write_valid_run(Path(folder), INPUTS)])


if __name__ == "__main__":
    home = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    with session(SparkSettings(java_home=home, java_flags=(sys.argv[1],))) as started:
        warm_up(started)
