"""The page of the tables, made from their declarations.

python -m harness.record.page FILE
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from harness.record.columns import meaning, null
from harness.record.schema import HISTORY, LOG

HEAD = """# The tables of a stored run

A run leaves one Parquet file for each table: in `history/` what the clients and the consumers said, in `log/` what the
brokers stored. `make docs` makes this page from `harness/record/schema.py`.

Partitions (`tp`) and operations (`op`) are numbered within a run: `partitions` and `ops` say what they are. Times in
nanoseconds (`_ns`) count from the run's begin on its monotonic clock; times in milliseconds (`_ms`) are wall clocks.
"""
ROOMS = (("history", "What the clients said", HISTORY), ("log", "What the brokers stored", LOG))


def page() -> str:
    """The whole page, as Markdown."""
    return "\n".join([HEAD, *_rooms()])


def _rooms() -> Iterator[str]:
    for folder, heading, tables in ROOMS:
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
