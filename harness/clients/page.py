"""Make docs/clients.md from `page.md`, the table of errors and the meanings of request versions.

python -m harness.clients.page FILE
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from harness.clients.error_table import ROWS, ErrorEntry
from harness.model.kafka_protocol import MEANINGS, VersionedMeaning

TEMPLATE = Path(__file__).with_name("page.md")


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
