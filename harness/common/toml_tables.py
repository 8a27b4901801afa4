"""Read dataclasses from the tables of `run.toml`."""

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    T = TypeVar("T", bound=DataclassInstance)
else:
    T = TypeVar("T")


ADDED = {"added": True}
"""Metadata of a field that runs of earlier versions do not have. Such a run gets its default."""


def read_table(kind: type[T], table: Mapping[str, Any], **converted_fields: Any) -> T:
    """Read a dataclass from its table. Raises KeyError for a field that is missing, TypeError for one that is unknown.

    TOML has no null, so the table may lack fields whose default is None.

    Args:
        converted_fields: The values of fields whose type differs between the file and the dataclass.
    """
    for field in fields(kind):
        if field.name not in table and field.default is not None and not field.metadata.get("added"):
            raise KeyError(field.name)
    return kind(**{**table, **converted_fields})
