"""The states of transactional ids in the transaction log, and the definition of their anomalies."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from random import Random

from tests.planted.words import Counts, nonzero, start_history, together
from tests.support.histories import History

State = tuple[str, int]  # state, epoch
Walk = tuple[tuple[int, State], ...]  # of several producer ids

LETTERS: list[State] = [
    *product(("Empty", "Ongoing", "PrepareAbort"), (0, 1)),
    *((state, 0) for state in ("PrepareCommit", "CompleteCommit", "CompleteAbort", "Tombstone")),
    ("CompleteCommit", 1),
]
FEW: list[State] = [
    ("Empty", 1), ("Ongoing", 0), ("PrepareCommit", 0), ("PrepareAbort", 1), ("CompleteCommit", 0),
]  # fmt: skip
AFTER = {
    "Empty": {"Empty", "Ongoing", "PrepareAbort", "Tombstone"},
    "Ongoing": {"Ongoing", "PrepareCommit", "PrepareAbort"},
    "PrepareCommit": {"CompleteCommit"},
    "PrepareAbort": {"CompleteAbort"},
    "CompleteCommit": {"Empty", "Ongoing", "PrepareAbort", "Tombstone"},
    "CompleteAbort": {"Empty", "Ongoing", "PrepareAbort", "Tombstone"},
    "Tombstone": {"Empty", "Ongoing"},
}
"""By state, the states that may follow it."""
REMEMBERED = 3
"""The coordinator may still be in one of so many states that were written last."""


def small() -> Iterator[Walk]:
    """All walks with up to four states. A run has several of them, and each walk has its own producer id."""
    walks = [walk for length in (1, 2, 3) for walk in product(LETTERS, repeat=length)]
    for some in together([*walks, *product(FEW, repeat=4)]):
        yield tuple((7 + number, state) for number, walk in enumerate(some) for state in walk)


def larger(rng: Random) -> Walk:
    """The walks of up to three ids: mostly legal, some states written twice, some unconfirmed, some wrong."""
    right = rng.choice([0.7, 0.9, 1.0])
    walks: dict[int, list[State]] = {pid: [("Empty", 0)] for pid in range(7, 7 + rng.randint(1, 3))}
    order = []
    for _ in range(rng.randint(6, 24)):
        pid = rng.choice(sorted(walks))
        name, epoch = walks[pid][-1]
        roll = rng.random()
        if roll > right:
            state = rng.choice(sorted(AFTER)), rng.randint(max(0, epoch - 1), epoch + 1)
        elif roll < 0.1:
            state = (name, epoch)
        elif roll < 0.2 and len(walks[pid]) > 1:
            state = rng.choice(sorted(AFTER[walks[pid][-2][0]])), epoch + rng.choice([0, 0, 1])
        else:
            state = rng.choice(sorted(AFTER[name])), epoch + rng.choice([0, 0, 1])
        walks[pid].append(state)
        order.append((pid, state))
    return tuple(order)


def draw(walk: Walk) -> History:
    h = start_history()
    for pid, (state, epoch) in walk:
        h.log_state(pid, state, "", epoch)
    h.clock += 60_000_000_000
    forgotten = {"producer_id": None, "epoch": None}
    h.alter("transactions", lambda row: row | forgotten if row["state"] == "Tombstone" else row)
    return h


def defined(walk: Walk) -> Counts:
    """States are compared within one transactional id."""
    found: Counter[str] = Counter()
    for pid in {pid for pid, _ in walk}:
        found.update(_defined([state for own, state in walk if own == pid]))
    return dict(found)


def _defined(log: Sequence[State]) -> Counts:
    """The coordinator is in the last written state, or still in a state from which it tried to write that."""
    written = [one for at, one in enumerate(log) if at == 0 or one != log[at - 1]]
    wrong, may_be = 0, [0]  # the latter by index
    for at, state in enumerate(written[1:], 1):
        held = [index for index in may_be if index >= at - REMEMBERED and _follows(written[index], state)]
        wrong += not held
        may_be = [*held, at]
    down = sum(
        "Tombstone" not in (before[0], after[0])
        and after[1] < before[1]
        and (before[0] == "Ongoing" or before[0].startswith("Complete") or _above(written, at - 1, after))
        for at, (before, after) in enumerate(pairwise(written))
    )
    stuck = written[-1][0].startswith("Prepare")
    return nonzero(transaction_state_violation=wrong, epoch_regression=down, stuck_completion=stuck)


def _follows(before: State, after: State) -> bool:
    if before[0] == "Tombstone":
        return True
    if after[0] == "PrepareAbort" and before[0] != "Ongoing" and after[1] <= before[1]:
        return False
    return after[0] in AFTER[before[0]]


def _above(written: list[State], at: int, after: State) -> bool:
    """Whether the state at this index has a higher epoch too."""
    return at >= 0 and written[at][0] != "Tombstone" and written[at][1] > after[1]
