"""Which classes of the JVM PySpark asks for, looked up once for each session."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["remember_classes"]

MEMBERS = {
    "org.apache.spark.sql.functions": ("expr", "col", "lit", "broadcast"),
    "functions": ("expr", "col", "lit", "broadcast"),
    "PythonUtils": ("toSeq",),
    "PythonSQLUtils": (),
}
"""Classes that PySpark names for each expression, and their members."""


def remember_classes(spark: "SparkSession") -> None:
    """Look them up once. By itself PySpark asks the JVM each time, which then looks through all its jars for
    packages of that name: about a second of every verdict.
    """
    view = spark._jvm
    assert view is not None
    for name, members in MEMBERS.items():
        found = getattr(view, name)
        setattr(view, name, found)
        for member in members:
            setattr(found, member, getattr(found, member))
