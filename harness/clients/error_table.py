"""Read `errors.toml`, the table by which both clients classify their errors, and make docs/clients.md from it.

python -m harness.clients.error_table FILE
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.clients.interface import ErrorMeaning
from harness.common.documents import read_toml
from harness.model.kafka_protocol import MEANINGS, VersionedMeaning

FILE = Path(__file__).with_name("errors.toml")
JAVA_ERRORS = "org.apache.kafka.common.errors"
TEMPLATE = Path(__file__).with_name("page.md")


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


def page() -> str:
    """Return the page as Markdown."""
    tables = {
        "errors": "\n".join(map(_row, ROWS)),
        "requests": "\n".join(line for meaning in MEANINGS for line in _meanings(meaning)),
    }
    return TEMPLATE.read_text(encoding="utf-8").format(**tables)


def _row(row: ErrorEntry) -> str:
    code = f" ({row.code})" if row.code is not None else ""
    name = f"`{row.name}`{code}"
    exception = f"{row.java.value}: `{row.short}`" if row.java else "no such error"
    meanings = " or ".join(meaning.value for meaning in row.librdkafka) or "no such error"
    return f"| {name} | {meanings} | {exception} | {row.when} | {row.source} |"


def _meanings(meaning: VersionedMeaning) -> Iterator[str]:
    if meaning.before:
        yield f"| {meaning.request} | below {meaning.version} | {meaning.before} |"
    yield f"| {meaning.request} | {f'{meaning.version} and above' if meaning.version else 'any'} | {meaning.since} |"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
