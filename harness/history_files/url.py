"""The URL of a history's folder on a file system of Spark, such as object storage or HDFS."""

import re

SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:/+[^/]")


class Url(str):
    """The URL of the folder, such as `s3a://bucket/history`. Only Spark can read it."""

    @property
    def name(self) -> str:
        """The last part of the URL."""
        return self.rstrip("/").rpartition("/")[2]

    def __truediv__(self, name: str) -> "Url":
        return Url(f"{self.rstrip('/')}/{name}")


def is_url(path: str) -> bool:
    """Return whether a path on the command line is a URL."""
    return SCHEME.match(path) is not None
