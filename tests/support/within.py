"""Whether an example tells what it must."""

from collections.abc import Mapping


def within(wanted: object, said: object) -> bool:
    """Whether every part that is wanted is said as it is wanted; a list is wanted whole."""
    if isinstance(wanted, Mapping) and isinstance(said, Mapping):
        return all(within(part, said.get(name)) for name, part in wanted.items())
    if isinstance(wanted, list) and isinstance(said, list):
        return len(wanted) == len(said) and all(map(within, wanted, said))
    return wanted == said
