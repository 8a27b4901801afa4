"""How a table of a store is declared: what it holds, and of each column what it means and why it may be null."""

import pyarrow as pa

MEANING, NULL = b"meaning", b"null"


def column(name: str, kind: pa.DataType, meaning: str, *, null: str = "") -> pa.Field:
    """A column. `null`: what a null says there; empty: there is none."""
    return pa.field(name, kind, metadata={MEANING: meaning.encode(), NULL: null.encode()})


def table(meaning: str, *columns: pa.Field) -> pa.Schema:
    """A table."""
    return pa.schema(columns, metadata={MEANING: meaning.encode()})


def meaning(declared: pa.Field | pa.Schema) -> str:
    """What it holds."""
    return str(declared.metadata[MEANING].decode())


def null(declared: pa.Field) -> str:
    """What a null says in this column; empty: there is none."""
    return str(declared.metadata[NULL].decode())


RUN = column("run", pa.int64(), "the run's number, the same in all its tables")
