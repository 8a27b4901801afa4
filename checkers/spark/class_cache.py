"""Cache the JVM classes that PySpark looks up for each expression."""

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
"""Classes that PySpark looks up for each expression, and their members."""


def remember_classes(spark: "SparkSession") -> None:
    """Look up these classes once for the session.

    By default PySpark asks the JVM for them each time. The JVM then searches all its jars for packages of that name,
    which takes about a second of every verdict.
    """
    view = spark._jvm
    assert view is not None
    for name, members in MEMBERS.items():
        cls = getattr(view, name)
        setattr(view, name, cls)
        for member in members:
            setattr(cls, member, getattr(cls, member))
