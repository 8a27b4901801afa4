"""The daemon of PySpark from which Python workers on the driver's machine are forked.

It imports the modules that a task needs, so that they are imported once and not in each worker.
"""

import pandas  # type: ignore[import-untyped]  # noqa: F401
from pyspark import worker  # noqa: F401
from pyspark.daemon import manager

import checkers.histories.tables  # noqa: F401

if __name__ == "__main__":
    manager()
