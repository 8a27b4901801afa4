"""echo: copy each word to one other topic. This is the smallest pipeline."""

from collections.abc import Sequence
from random import Random

from harness.model.expectation import Feed, FeedRecord, InputRecord
from workloads.model.workload import Output, Workload, WorkloadStage

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def word(rng: Random, n: int) -> FeedRecord:
    """Return the n-th word. Its first letter is the key."""
    letters = "".join(rng.choices(LETTERS, k=8))
    return FeedRecord(letters[0].encode(), f"{letters} {n}".encode())


def repeat(record: InputRecord) -> Sequence[Output]:
    """Return an output with the same key and value."""
    return (Output("echoes", "echo", record.key, record.value),)


ECHO = Workload(
    name="echo",
    summary="words -> echoes",
    feed=(Feed("words", word),),
    stages=(WorkloadStage("echo", ("words",), ("echoes",), repeat, ordered=True),),
)
