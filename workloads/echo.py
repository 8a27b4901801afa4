"""echo: each word that comes in goes out again, to one other topic. The smallest pipeline there is."""

from collections.abc import Sequence
from random import Random

from harness.expectation import Fed, Feed, Input
from workloads.model.workload import Output, Stage, Workload

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def word(rng: Random, n: int) -> Fed:
    """The n-th word: its first letter is the key."""
    letters = "".join(rng.choices(LETTERS, k=8))
    return Fed(letters[0].encode(), f"{letters} {n}".encode())


def repeat(record: Input) -> Sequence[Output]:
    """The same key and value."""
    return (Output("echoes", "echo", record.key, record.value),)


ECHO = Workload(
    name="echo",
    summary="words -> echoes",
    feed=(Feed("words", word),),
    stages=(Stage("echo", ("words",), ("echoes",), repeat, ordered=True),),
)
