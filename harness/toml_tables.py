"""Dataclasses that a run wrote into `test.toml`, a table for each."""

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    T = TypeVar("T", bound=DataclassInstance)
else:
    T = TypeVar("T")


def read_table(kind: type[T], table: Mapping[str, Any], **other: Any) -> T:
    """Read one back. `other`: the fields that have another type in the file. TOML has no null, so the table may lack a
    field whose default is None, and no other. Raises KeyError, TypeError.
    """
    for one in fields(kind):
        if one.name not in table and one.default is not None:
            raise KeyError(one.name)
    return kind(**{**table, **other})
