"""Notes about what cannot be read of a run. Reports show them, and nothing else changes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow as pa

from harness.common.errors import UnreadableInput
from harness.results.wording import printable

T = TypeVar("T")


@dataclass
class Notes:
    """Collects the notes."""

    texts: list[str] = field(default_factory=list)

    def read(self, load: Callable[[], T]) -> T | None:
        """Return what `load` returns. None, and a note, if a table is missing or damaged or has other types."""
        try:
            return load()
        except (UnreadableInput, TypeError, ValueError, pa.ArrowException) as error:
            self.texts.append(printable(str(error), 300))
            return None
