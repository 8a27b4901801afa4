"""sparse: few inputs lead to an output, so many transactions are empty or hold offsets only.

A reading at or above the threshold leads to an alarm; the others lead to no output. From time to time a worker also
commits an extra transaction: an empty one, one that repeats the group's offsets, or one with an output (a note) that
comes from no input.
"""

from collections.abc import Sequence
from random import Random

from harness.model.expectation import Feed, FeedRecord, InputRecord
from workloads.model.workload import Output, Workload, WorkloadStage

THRESHOLD = 97
ALARMS, NOTES = "alarms", "notes"


def reading(rng: Random, n: int) -> FeedRecord:
    """Return the n-th reading, from 0 to 99. The sensor is the key."""
    return FeedRecord(b"sensor-%d" % rng.randrange(500), b"%d" % rng.randrange(100))


def alarm(record: InputRecord) -> Sequence[Output]:
    """Return an alarm if the reading is too high, else nothing."""
    high = int(record.value or b"0") >= THRESHOLD
    return (Output(ALARMS, "alarm", record.key, record.value),) if high else ()


SPARSE = Workload(
    name="sparse",
    summary="readings -> alarms for a few of them; notes without an input; empty transactions",
    feed=(Feed("readings", reading),),
    stages=(WorkloadStage("sparse", ("readings",), (ALARMS, NOTES), alarm, ordered=True, notes=NOTES),),
    empty_share=0.2,
)
