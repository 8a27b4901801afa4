"""Fewer runs of the garbage collector, where hundreds of thousands of rows are held and none is in a cycle."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

OBJECTS = 500_000
"""New ones between two runs; by default 700, and each run looks at the rows that are held. A third of the time."""


@contextmanager
def seldom_collected() -> Iterator[None]:
    """For the length of a `with`."""
    before = gc.get_threshold()
    gc.set_threshold(OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
