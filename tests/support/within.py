"""Compare an example with the part of it that a test expects."""

from collections.abc import Mapping


def is_part_of(expected: object, actual: object) -> bool:
    """Whether `actual` has every key of `expected` with an equal value. Lists must have the same length."""
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        return all(is_part_of(part, actual.get(name)) for name, part in expected.items())
    if isinstance(expected, list) and isinstance(actual, list):
        return len(expected) == len(actual) and all(map(is_part_of, expected, actual))
    return expected == actual
