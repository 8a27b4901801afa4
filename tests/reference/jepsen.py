"""The definition of all anomalies of one history, and of its verdict."""

from collections.abc import Hashable, Iterable

from tests.reference import records
from tests.reference.cycles import KINDS, cycles
from tests.reference.history import Event, History
from tests.reference.steps import steps

Findings = dict[str, set[Hashable]]

KIN = ("", "-process", "-realtime")
RECORDS = {
    "lost-write": records.lost_write,
    "duplicate": records.duplicate,
    "inconsistent-offsets": records.inconsistent_offsets,
    "aborted-read": records.aborted_read,
    "precommitted-read": records.precommitted_read,
    "unseen": records.unseen,
    "torn-transaction": records.torn_transaction,
    "phantom": records.phantom,
}
STEPS = (
    "poll-skip",
    "nonmonotonic-poll",
    "int-poll-skip",
    "int-nonmonotonic-poll",
    "nonmonotonic-send",
    "int-nonmonotonic-send",
    "int-send-skip",
)
CYCLES = tuple(f"{parent}{kin}" for parent in KINDS for kin in KIN)
NAMES = (*RECORDS, *STEPS, *CYCLES)

ALWAYS_ALLOWED = {  # 5.2, 6: cycles that need a ww or an rw edge
    "int-send-skip",
    *(f"{parent}{kin}" for parent in ("G0", "G1c-ww", "G-single", "G2") for kin in KIN),
}
ALLOWED_WITH_SUBSCRIBE = {"poll-skip", "nonmonotonic-poll"}  # 5.2


def findings(events: list[Event]) -> Findings:
    """By name, what was found: a tuple for each, or for a cycle the set of its operations.

    Each definition says what its tuples are. Names of which nothing was found are not there.

    Raises:
        Malformed: the events of a process do not alternate.
    """
    return _findings(History(events))


def _findings(h: History) -> Findings:
    found: Findings = {name: set(define(h)) for name, define in RECORDS.items()}
    found |= {name: set(some) for name, some in steps(h).items()}
    found |= {name: set(some) for name, some in cycles(h).items()}
    return {name: some for name, some in found.items() if some}


def verdict(events: list[Event], allow: Iterable[str] = ()) -> tuple[bool | str, dict[str, int], set[str]]:
    """Whether it is valid, how many of each name were found, and which of the names found are allowed."""
    return verdict_of(History(events), allow)


def verdict_of(h: History, allow: Iterable[str] = ()) -> tuple[bool | str, dict[str, int], set[str]]:
    """As `verdict`."""
    counts = {name: len(some) for name, some in _findings(h).items()}
    may = ALWAYS_ALLOWED | set(allow) | (ALLOWED_WITH_SUBSCRIBE if h.subscribes() else set())
    bad = counts.keys() - may
    # Choice: where no ok operation was given anything nobody looked, and `unseen` alone proves nothing.
    if not h.ok_read and bad <= {"unseen"}:
        return "unknown", counts, counts.keys() & may
    return not bad, counts, counts.keys() & may
