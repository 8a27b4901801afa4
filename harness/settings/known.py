"""What an option may name."""

from collections.abc import Callable, Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Known:
    """The names that exist, handed in by the front door: this room knows no registry."""

    workloads: Collection[str]
    require_fault: Callable[[str], None]  # raises `UsageError` for what no fault is called
    defects: Collection[str]
    kafka: Collection[str]
