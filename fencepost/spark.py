"""Spark, as the commands start it: with the Java that is there, and its archive of classes if it is made."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from checkers.session import Pending, SparkSettings, begin
from harness.environment.cache import cache_folder
from harness.environment.java import Java, java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def settings(found: Java, master: str, conf: Mapping[str, str], *, large: bool = False) -> SparkSettings:
    """How Spark is to be started with that Java."""
    archive = cache_folder() / archive_name(found)
    return SparkSettings(
        java_home=found.home,
        master=master,
        conf=conf,
        size="large" if large else "small",
        archive=archive if archive.exists() else None,
    )


def archive_name(found: Java) -> str:
    """The file in the cache that holds Spark's classes for one Java."""
    from importlib.metadata import version

    return f"spark-{version('pyspark')}-java-{found.version}-{abs(hash_of(str(found.home))):x}.jsa"


def hash_of(text: str) -> int:
    """A short name for a long path."""
    import zlib

    return zlib.crc32(text.encode())


@contextmanager
def starting(master: str, conf: Mapping[str, str], *, large: bool = False) -> "Iterator[SparkSession]":
    """A session for the length of a `with`, with the Java of this machine."""
    with begin(settings(java("auto"), master, conf, large=large)) as spark:
        yield spark


def begin_early(found: Java, master: str, conf: Mapping[str, str]) -> Pending:
    """Start it while a run's last seconds pass."""
    return begin(settings(found, master, conf))
