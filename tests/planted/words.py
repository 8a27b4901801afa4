"""What all families share."""

from tests.support.histories import History

Found = dict[str, int]
"""How many there are of each anomaly; of the others none."""


def begun(**options: str) -> History:
    """One input, taken: everything else stands beside it."""
    h = History(**options)  # type: ignore[arg-type]
    h.feed(1)
    h.transact(0)
    return h


def some(**found: int) -> Found:
    return {name.replace("_", "-"): int(count) for name, count in found.items() if count}
