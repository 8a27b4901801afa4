"""explore: two inputs and small programs of transactions for each partition, for `fencepost explore`.

Partition n belongs to case n. Each input leads to an output in each of two topics, so that a transaction can be torn.
The program of a case is carried out with a transactional id of its own (`workloads.loop.programs`).
"""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from harness.model.expectation import Feed, FeedRecord, InputRecord
from workloads.model.policy import Delivery
from workloads.model.workload import Output, Workload, WorkloadStage

INPUTS = 2
"""Inputs of each case."""
TASKS, FIRST, SECOND = "tasks", "first", "second"


def task(rng: Random, n: int) -> FeedRecord:
    """Return the n-th input, an input of the case `n // INPUTS`."""
    return FeedRecord(b"%d" % (n // INPUTS), b"%d" % n, partition=n // INPUTS)


def outputs_of(record: InputRecord) -> Sequence[Output]:
    """Return an output for each topic."""
    return tuple(Output(topic, topic, record.key, record.value) for topic in (FIRST, SECOND))


EXPLORE = Workload(
    name="explore",
    summary="tasks -> first and second, by programs that `fencepost explore` gives to its workers",
    feed=(Feed(TASKS, task, per_partition=INPUTS),),
    stages=(WorkloadStage("program", (TASKS,), (FIRST, SECOND), outputs_of),),
    delivery=Delivery.PROGRAMS,
)

EXPLORE_MEMBERS = replace(EXPLORE, name="explore-members", delivery=Delivery.PROGRAMS_OF_MEMBERS)
"""The same, and its workers are members of their group."""
