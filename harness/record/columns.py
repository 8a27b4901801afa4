"""Declares the tables of a run folder, with the meaning of each column and the reason why it may be null."""

import pyarrow as pa

MEANING, NULL, ADDED = b"meaning", b"null", b"added"


def column(name: str, kind: pa.DataType, meaning: str, *, null: str = "", added: bool = False) -> pa.Field:
    """Declare a column.

    Args:
        null: What a null means; empty: the column has no nulls.
        added: Tables of earlier versions lack the column. Then each of its cells is null.
    """
    metadata = {MEANING: meaning.encode(), NULL: null.encode()}
    return pa.field(name, kind, metadata=metadata | ({ADDED: b""} if added else {}))


def table(meaning: str, *columns: pa.Field) -> pa.Schema:
    """Declare a table."""
    return pa.schema(columns, metadata={MEANING: meaning.encode()})


def meaning(declared: pa.Field | pa.Schema) -> str:
    """Return the meaning of a column or a table."""
    return str(declared.metadata[MEANING].decode())


def null(declared: pa.Field) -> str:
    """Return what a null in this column means; empty: the column has no nulls."""
    return str(declared.metadata[NULL].decode())


def is_added(declared: pa.Field) -> bool:
    """Return whether tables of earlier versions lack this column."""
    return ADDED in declared.metadata


RUN = column("run", pa.int64(), "the number of the run, the same in all its tables")
