"""Judge a small store: what loads the classes that an analysis needs.

    python -m checkers.checking.warm_up FLAG [JAVA_HOME]

starts the driver's JVM with one more flag, judges that store, and ends the JVM in order: this is how
`checkers.spark.jvm.make_archive` has the JVM write its archive. `warm_up` does the same in a session that
is there already.
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
"""So many that Spark reads the tables from their files, as those of a run of any length; small ones are read here."""


def warm_up(spark: SparkSession, scratch: Path | None = None, *, large: bool = False) -> None:
    """Judge the small store, so that the JVM has loaded and compiled what a right run needs; `large`: in several
    partitions, as a large one is judged.
    """
    several = several_partitions(spark) if large else nullcontext()
    with several, tempfile.TemporaryDirectory(prefix="fencepost-warm-", dir=scratch) as folder:
        check_runs(spark, [write_valid_run(Path(folder), INPUTS)])


if __name__ == "__main__":
    home = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    with session(SparkSettings(java_home=home, java_flags=(sys.argv[1],))) as started:
        warm_up(started)
