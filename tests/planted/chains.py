"""Two stages in sequence: a relay that may repeat, and a consumer that may not; and the definition of their anomalies.

The relay publishes each row of a table in one transaction and marks it. A group polls the events and writes a row for
each, which names the row of the first table.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement, product
from random import Random

from tests.planted.words import Counts
from tests.support.histories import History
from tests.support.outbox import OPTIONS, apply, outbox, publish

PERMITTED = "reprocessed-input, permitted"


@dataclass(frozen=True)
class Chain:
    """`published`: the rows in the order of their events; `passed`: the number of events below the group's offset."""

    rows: int
    published: tuple[int, ...]
    passed: int
    applied: tuple[int, ...]
    relay_may_repeat: bool  # the relay promises no more than at least once
    pending: frozenset[int]  # rows that are not marked


def small() -> Iterator[Chain]:
    """One or two rows, up to three events and up to two effects."""
    for rows, events in product((1, 2), range(4)):
        for published in product(range(rows), repeat=events):
            for passed in range(events + 1):
                given = sorted(set(published[:passed]))
                for many, relay_may_repeat in product(range(3 if given else 1), (True, False)):
                    for applied in combinations_with_replacement(given, many):
                        for pending in {frozenset(), frozenset(range(rows)) - {*published}}:
                            yield Chain(rows, published, passed, applied, relay_may_repeat, pending)


def larger(rng: Random) -> Chain:
    """Up to six rows, most of them right."""
    rows = rng.randint(2, 6)
    published = [row for row in range(rows) for _ in range(rng.choice([0, 1, 1, 1, 2, 3]))]
    rng.shuffle(published)
    passed = rng.randint(0, len(published))
    given = dict.fromkeys(published[:passed])
    applied = tuple(row for row in given for _ in range(rng.choice([0, 1, 1, 1, 2])))
    left = [row for row in range(rows) if row not in published]
    pending = frozenset(row for row in left if rng.random() < 0.5)
    return Chain(rows, tuple(published), passed, applied, rng.random() < 0.5, pending)


def draw(chain: Chain) -> History:
    """Publish each event in one transaction. The group commits its offset after the effects."""
    h = History(**OPTIONS)  # type: ignore[arg-type]
    h.feed(chain.rows)
    for row in chain.published:
        publish(h, row)
    if chain.passed:
        events = [at for at, entry in enumerate(h.entries["x"]) if "marker" not in entry]
        apply(h, events[: chain.passed], *chain.applied)
    outbox(h, pending=sorted(chain.pending), relay_may_repeat=chain.relay_may_repeat)
    return h


def defined(chain: Chain) -> Counts:
    """A row that is marked has an event, an event that was passed an effect, and of each there is no second one.

    Where nothing was ever published the run lacks evidence, and what is absent proves nothing.
    """
    if not chain.published:
        return {}
    found: Counter[str] = Counter()
    passed = {*chain.published[: chain.passed]}
    for row in range(chain.rows):
        events, effects = chain.published.count(row), chain.applied.count(row)
        found["lost-input"] += row not in chain.pending and not events
        found["lost-input"] += row in passed and not effects
        found[PERMITTED if chain.relay_may_repeat else "reprocessed-input"] += events > 1
        found["reprocessed-input"] += effects > 1
    return {name: count for name, count in found.items() if count}
