"""echo: each word that comes in goes out again, to one other topic. The smallest pipeline there is."""

from collections.abc import Sequence
from random import Random

from harness.model.expectation import Feed, FeedRecord, InputRecord
from workloads.model.workload import Output, Workload, WorkloadStage

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def word(rng: Random, n: int) -> FeedRecord:
    """The n-th word: its first letter is the key."""
    letters = "".join(rng.choices(LETTERS, k=8))
    return FeedRecord(letters[0].encode(), f"{letters} {n}".encode())


def repeat(record: InputRecord) -> Sequence[Output]:
    """The same key and value."""
    return (Output("echoes", "echo", record.key, record.value),)


ECHO = Workload(
    name="echo",
    summary="words -> echoes",
    feed=(Feed("words", word),),
    stages=(WorkloadStage("echo", ("words",), ("echoes",), repeat, ordered=True),),
)
