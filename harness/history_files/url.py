"""A history's folder on one of Spark's own file systems: object storage, HDFS."""

import re

SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:/+[^/]")


class Url(str):
    """Where the folder lies, such as `s3a://bucket/history`; nothing but Spark reads it."""

    @property
    def name(self) -> str:
        """The last part."""
        return self.rstrip("/").rpartition("/")[2]

    def __truediv__(self, name: str) -> "Url":
        return Url(f"{self.rstrip('/')}/{name}")


def is_url(path: str) -> bool:
    """Whether a path on the command line names a file system of its own."""
    return SCHEME.match(path) is not None
