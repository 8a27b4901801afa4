"""Every small log of a broker, and what its anomalies are, in so many words.

Three families: what one producer wrote into one partition, by epoch and sequence; the states of one
transactional id; records and markers against the transactions that were completed.
"""

from collections.abc import Iterator
from itertools import pairwise, product

from histories import History

Found = dict[str, int]
Entry = tuple[str, int, int]  # data or abort, epoch, sequence
State = tuple[str, int]  # state, epoch

DATA = [("data", epoch, seq) for epoch in (0, 1) for seq in (0, 1, 2)]
ENTRIES: list[Entry] = [*DATA, ("abort", 0, -1), ("abort", 1, -1)]


def partitions() -> Iterator[tuple[Entry, ...]]:
    for length in (1, 2, 3):
        yield from product(ENTRIES, repeat=length)


def draw_partition(log: tuple[Entry, ...]) -> History:
    h = _begun()
    for kind, epoch, seq in log:
        if kind == "data":
            h.put("y", None, 7, epoch, seq=seq)
        else:
            h.mark("y", 7, kind, epoch)
    return h


def defined_partition(log: tuple[Entry, ...]) -> Found:
    data = [entry for entry in log if entry[0] == "data"]
    down = sum(before[1] > after[1] and "data" in (before[0], after[0]) for before, after in pairwise(log))
    apart = sum(before[1] == after[1] and after[2] != before[2] + 1 for before, after in pairwise(data))
    markers = [at for at, entry in enumerate(log) if entry[0] == "abort"]
    still_open = sum(entry[0] == "data" and at > max(markers, default=-1) for at, entry in enumerate(log))
    return _some(epoch_regression=down, sequence_violation=apart, hanging_transaction=still_open)


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
}
"""By state, those that may follow it."""


def states() -> Iterator[tuple[State, ...]]:
    for length in (1, 2, 3):
        yield from product(LETTERS, repeat=length)
    yield from product(FEW, repeat=4)


def draw_states(log: tuple[State, ...]) -> History:
    h = _begun()
    for state, epoch in log:
        h.state(7, state, "", epoch)
    h.clock += 60_000_000_000
    forgotten = {"producer_id": None, "epoch": None}
    h.alter("transactions", lambda row: row | forgotten if row["state"] == "Tombstone" else row)
    return h


def defined_states(log: tuple[State, ...]) -> Found:
    """The coordinator is in the state that was written, or still in one from which it tried to write it."""
    written = [one for at, one in enumerate(log) if at == 0 or one != log[at - 1]]
    wrong, may_be = 0, {written[0]}
    for state in written[1:]:
        held = {before for before in may_be if _follows(before, state)}
        wrong += not held
        may_be = held | {state}
    down = sum(
        "Tombstone" not in (before[0], after[0])
        and after[1] < before[1]
        and (before[0] == "Ongoing" or before[0].startswith("Complete") or _above(written, at - 1, after))
        for at, (before, after) in enumerate(pairwise(written))
    )
    stuck = written[-1][0].startswith("Prepare")
    return _some(transaction_state_violation=wrong, epoch_regression=down, stuck_completion=stuck)


def _follows(before: State, after: State) -> bool:
    if before[0] == "Tombstone":
        return True
    if after[0] == "PrepareAbort" and before[0] != "Ongoing" and after[1] <= before[1]:
        return False
    return after[0] in AFTER[before[0]]


def _above(written: list[State], at: int, after: State) -> bool:
    """Whether the state there has a higher epoch too."""
    return at >= 0 and written[at][0] != "Tombstone" and written[at][1] > after[1]


Marked = tuple[tuple[str, ...], int]


def marked() -> Iterator[Marked]:
    for length, completions in product((1, 2, 3), (0, 1, 2)):
        for log in product(("data", "abort"), repeat=length):
            yield log, completions


def draw_marked(case: Marked) -> History:
    h = _begun()
    for kind in case[0]:
        if kind == "data":
            h.put("y", None, 7)
        else:
            h.mark("y", 7, kind)
    for _ in range(case[1]):
        h.complete(7, "y", "Abort")
    return h


def defined_marked(case: Marked) -> Found:
    log, completions = case
    still_open = log[::-1].index("abort") if "abort" in log else len(log)
    unmarked = "data" in log and log.count("abort") < completions
    return _some(unmarked_partition=unmarked, hanging_transaction=still_open)


def _begun() -> History:
    """One input, taken: everything else stands beside it."""
    h = History()
    h.feed(1)
    h.take(0)
    return h


def _some(**found: int) -> Found:
    return {name.replace("_", "-"): int(count) for name, count in found.items() if count}
