"""Makes docs/tables.md from the declarations of the tables.

python -m harness.record.page FILE
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from harness.record.columns import meaning, null
from harness.record.schema import HISTORY, LOG

HEAD = """# The tables of a stored run

A run folder has one Parquet file for each table. The tables in `history/` are made from the journals, and those in
`log/` from the broker logs. `make docs` makes this page from `harness/record/schema.py` and
`harness/record/log_schema.py`.

Partitions (`tp`) and operations (`op`) are numbered within a run; the tables `partitions` and `ops` describe them.
Times in nanoseconds (`_ns`) count from the start of the run on its monotonic clock. Times in milliseconds (`_ms`) are
wall-clock times.
"""
FOLDERS = (("history", "The history", HISTORY), ("log", "The broker logs", LOG))


def page() -> str:
    """Return the page as Markdown."""
    return "\n".join([HEAD, *_folders()])


def _folders() -> Iterator[str]:
    for folder, heading, tables in FOLDERS:
        yield f"## {heading}: `{folder}/`\n"
        for name, schema in tables.items():
            yield f"### {name}\n\n{meaning(schema)}\n\n| column | type | meaning | null |\n| --- | --- | --- | --- |"
            yield from map(_row, schema)
            yield ""


def _row(column: pa.Field) -> str:
    return f"| `{column.name}` | {_kind(column.type)} | {meaning(column)} | {null(column) or 'never'} |"


def _kind(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"list of {_kind(kind.value_type)}"
    if pa.types.is_struct(kind):
        fields = (kind.field(at) for at in range(kind.num_fields))
        return "(" + ", ".join(f"{field.name} {_kind(field.type)}" for field in fields) + ")"
    return str(kind)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
