"""Read `errors.toml`, the table by which both clients classify their errors.

`harness.clients.page` makes `docs/clients.md` from the same table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.clients.interface import ErrorMeaning
from harness.common.documents import read_toml

FILE = Path(__file__).with_name("errors.toml")
JAVA_ERRORS = "org.apache.kafka.common.errors"


@dataclass(frozen=True)
class ErrorEntry:
    """One row of the table: an error of Kafka's protocol, which both clients have, or an error of one library."""

    name: str
    when: str  # the situation in which it occurs
    source: str  # a KIP, an issue, or the client's own documentation
    code: int | None = None  # error code of the protocol; negative: only librdkafka has it; None: only Java
    librdkafka: tuple[ErrorMeaning, ...] = ()  # the first, unless the error's flags select another one
    exception: str | None = None  # full name of the Java class; None: only librdkafka has the error
    java: ErrorMeaning | None = None

    @property
    def short(self) -> str:
        """Return the name of the exception without its package."""
        return (self.exception or "").rpartition(".")[2]

    @classmethod
    def parse(cls, table: Mapping[str, Any]) -> "ErrorEntry":
        exception, java = table.get("exception"), table.get("java")
        full_name = exception if exception is None or "." in exception else f"{JAVA_ERRORS}.{exception}"
        return cls(
            name=table["name"],
            when=table["when"],
            source=table["source"],
            code=table.get("code"),
            librdkafka=tuple(map(ErrorMeaning, table.get("librdkafka", ()))),
            exception=full_name,
            java=None if java is None else ErrorMeaning(java),
        )


ROWS: Sequence[ErrorEntry] = [ErrorEntry.parse(table) for table in read_toml(FILE)["error"]]
JAVA_ROWS: Sequence[ErrorEntry] = [row for row in ROWS if row.java is not None]
"""The rows with a Java class, in the order of the file. The first one that matches an exception or a cause decides."""
_BY_CODE: Mapping[int, ErrorEntry] = {row.code: row for row in ROWS if row.code is not None}


def librdkafka_meaning(code: int, flagged: ErrorMeaning | None) -> ErrorMeaning:
    """Return the meaning of a librdkafka error.

    The library's flags decide, because librdkafka knows the request. Without flags, the first meaning in the error's
    row decides. If that first meaning is `FENCED`, it decides although there are flags. An error without flags and
    without a row is `UNKNOWN`.

    Args:
        code: the error code.
        flagged: the meaning according to the error's flags; None: it has no flags.
    """
    row = _BY_CODE.get(code)
    default = row.librdkafka[0] if row else ErrorMeaning.UNKNOWN
    return default if default is ErrorMeaning.FENCED else flagged or default
