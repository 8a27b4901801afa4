"""What the errors of both clients mean: `errors.toml`, the one table by which both clients classify.

`docs/clients.md` is made of it, too (`harness.clients.page`).
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.clients.interface import ErrorMeaning

FILE = Path(__file__).with_name("errors.toml")
JAVA_ERRORS = "org.apache.kafka.common.errors"


@dataclass(frozen=True)
class ErrorEntry:
    """One error: of Kafka's protocol, which both clients have, or one of a library's own."""

    name: str
    when: str  # it comes
    source: str  # a KIP, an issue, or the client's own documentation
    code: int | None = None  # of the protocol; negative: librdkafka's own; None: Java's own
    librdkafka: tuple[ErrorMeaning, ...] = ()  # the first, unless the library's flags say another of them
    exception: str | None = None  # the whole name of Java's class; None: librdkafka's own
    java: ErrorMeaning | None = None

    @property
    def short(self) -> str:
        """The exception without its package."""
        return (self.exception or "").rpartition(".")[2]

    @classmethod
    def parse(cls, table: Mapping[str, Any]) -> "ErrorEntry":
        """From the file."""
        exception, java = table.get("exception"), table.get("java")
        whole = exception if exception is None or "." in exception else f"{JAVA_ERRORS}.{exception}"
        return cls(
            name=table["name"],
            when=table["when"],
            source=table["source"],
            code=table.get("code"),
            librdkafka=tuple(map(ErrorMeaning, table.get("librdkafka", ()))),
            exception=whole,
            java=None if java is None else ErrorMeaning(java),
        )


ROWS: Sequence[ErrorEntry] = [
    ErrorEntry.parse(table) for table in tomllib.loads(FILE.read_text(encoding="utf-8"))["error"]
]
JAVA_ROWS: Sequence[ErrorEntry] = [row for row in ROWS if row.java is not None]
"""In the order in which they are tried: the first of which an exception, or a cause of it, is an instance."""
_BY_CODE: Mapping[int, ErrorEntry] = {row.code: row for row in ROWS if row.code is not None}


def librdkafka_meaning(code: int, flagged: ErrorMeaning | None) -> ErrorMeaning:
    """What an error means: fenced if the table says so, else what the library's flags say, which knows the request;
    without flags the first of its row; and of an error in no row, unknown.
    """
    row = _BY_CODE.get(code)
    usual = row.librdkafka[0] if row else ErrorMeaning.UNKNOWN
    return usual if usual is ErrorMeaning.FENCED else flagged or usual
