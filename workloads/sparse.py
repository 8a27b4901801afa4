"""sparse: readings of which few lead to anything, and transactions with nothing in them.

A reading above the threshold is an alarm; all others lead to no output, so most transactions hold offsets alone. Now
and then a worker commits a transaction without anything, one that states the group's offsets once more, or one with
a note that comes of no input.
"""

from collections.abc import Sequence
from random import Random

from harness.model.expectation import Feed, FeedRecord, InputRecord
from workloads.model.workload import Output, Workload, WorkloadStage

THRESHOLD = 97
ALARMS, NOTES = "alarms", "notes"


def reading(rng: Random, n: int) -> FeedRecord:
    """The n-th reading, from 0 to 99: the sensor is the key."""
    return FeedRecord(b"sensor-%d" % rng.randrange(500), b"%d" % rng.randrange(100))


def alarm(record: InputRecord) -> Sequence[Output]:
    """An alarm where the reading is too high."""
    high = int(record.value or b"0") >= THRESHOLD
    return (Output(ALARMS, "alarm", record.key, record.value),) if high else ()


SPARSE = Workload(
    name="sparse",
    summary="readings -> alarms, of few of them; notes, of none; and empty transactions",
    feed=(Feed("readings", reading),),
    stages=(WorkloadStage("sparse", ("readings",), (ALARMS, NOTES), alarm, ordered=True, notes=NOTES),),
    empty_share=0.2,
)
