"""Check a small stored run, to load and compile the classes that an analysis needs.

    python -m checkers.checking.warm_up FLAG JAVA_HOME

starts the driver's JVM with one more flag, checks the run, and ends the JVM in order. This is how
`checkers.spark.driver.archive_command` makes the JVM write its archive. The function `warm_up` does the same in a
session that exists already.

The run is `warm_up_run`: 14 s of the workload `shop`, with one worker killed. If the form of the tables changes, record
it again.
"""

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from checkers.checking.stored_runs import check_runs
from checkers.spark.session import SparkSettings, session
from checkers.spark.settings import ROWS_INTERPRETED
from checkers.stored.sources import StoredRun

RUN = StoredRun(
    4120566545830866046,
    Path(__file__).with_name("warm_up_run"),
    wall_ms_at_zero=1795937701955.5818,
    healed=True,
)


def warm_up(spark: SparkSession, rows: int = 0) -> None:
    """Check a small valid run, so that the JVM loads and compiles the code that another run needs.

    Args:
        rows: the number of rows of the other run. The small run is checked with the settings for so many.
    """
    # Spark reads the tables from files, as it does for long runs.
    check_runs(spark, [RUN], inline_rows=0, least_rows=rows)


if __name__ == "__main__":
    with session(SparkSettings(java_home=Path(sys.argv[2]), java_flags=(sys.argv[1],))) as started:
        for number in (0, ROWS_INTERPRETED + 1):  # with and without generated code
            warm_up(started, number)
