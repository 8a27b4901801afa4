"""The page of the clients, made from the table of errors and from what versions of requests mean.

python -m harness.clients.page FILE
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from harness.clients.error_table import ROWS, ErrorEntry
from harness.results.requests import MEANINGS, VersionedMeaning

TEMPLATE = Path(__file__).with_name("page.md")


def page() -> str:
    """The whole page, as Markdown."""
    told = {
        "errors": "\n".join(map(_row, ROWS)),
        "requests": "\n".join(line for one in MEANINGS for line in _meanings(one)),
    }
    return TEMPLATE.read_text(encoding="utf-8").format(**told)


def _row(row: ErrorEntry) -> str:
    code = f" ({row.code})" if row.code is not None else ""
    name = f"`{row.name}`{code}"
    exception = f"{row.java.value}: `{row.short}`" if row.java else "no such error"
    failures = " or ".join(meaning.value for meaning in row.librdkafka) or "no such error"
    return f"| {name} | {failures} | {exception} | {row.when} | {row.source} |"


def _meanings(one: VersionedMeaning) -> Iterator[str]:
    if one.before:
        yield f"| {one.request} | below {one.version} | {one.before} |"
    yield f"| {one.request} | {f'{one.version} and above' if one.version else 'any'} | {one.since} |"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
