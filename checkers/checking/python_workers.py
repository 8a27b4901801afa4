"""The module that Python workers on the driver's machine are forked from: PySpark's daemon.

It imports what a task needs, so that this is done once and not in each worker.
"""

import pandas  # type: ignore[import-untyped]  # noqa: F401
from pyspark import worker  # noqa: F401
from pyspark.daemon import manager

import checkers.external.tables  # noqa: F401

if __name__ == "__main__":
    manager()
