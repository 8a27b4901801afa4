"""Declares the tables of a run folder, with the meaning of each column and the reason why it may be null."""

import pyarrow as pa

MEANING, NULL = b"meaning", b"null"


def column(name: str, kind: pa.DataType, meaning: str, *, null: str = "") -> pa.Field:
    """Declare a column. `null` says what a null means; empty: the column has no nulls."""
    return pa.field(name, kind, metadata={MEANING: meaning.encode(), NULL: null.encode()})


def table(meaning: str, *columns: pa.Field) -> pa.Schema:
    """Declare a table."""
    return pa.schema(columns, metadata={MEANING: meaning.encode()})


def meaning(declared: pa.Field | pa.Schema) -> str:
    """Return the meaning of a column or a table."""
    return str(declared.metadata[MEANING].decode())


def null(declared: pa.Field) -> str:
    """Return what a null in this column means; empty: the column has no nulls."""
    return str(declared.metadata[NULL].decode())


RUN = column("run", pa.int64(), "the number of the run, the same in all its tables")
