"""Large records: a workload as it is, but its records are padded to a size that the run asks for.

The padding stands in a header of the run's own, so that no transform meets it, and every digest covers it.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from random import Random

from harness.model.expectation import Feed, FeedRecord, Headers, InputRecord
from harness.model.vocabulary import PAD_HEADER
from workloads.model.workload import Output, Workload, WorkloadStage

OVERHEAD_BYTES = 65_536
"""Of a record's headers and of its batch, at most."""
DEFAULT_LIMIT_BYTES = 900_000
"""Records up to here fit the limits that brokers and clients have by themselves."""


def largest_bytes(record_bytes: int) -> int | None:
    """The largest record or batch that brokers and clients must take; None: what they take by themselves."""
    return record_bytes + OVERHEAD_BYTES if record_bytes > DEFAULT_LIMIT_BYTES else None


def padded(workload: Workload, record_bytes: int) -> Workload:
    """The workload with records of at least that many bytes of key, value and padding: those of its feeds, and all
    outputs but sums and rows of tables. 0: as they are.
    """
    if not record_bytes:
        return workload

    def fed(feed: Feed, rng: Random, n: int) -> FeedRecord:
        made = feed.make(rng, n)
        return made._replace(headers=(*made.headers, *_padding(made, record_bytes)))

    def transform(stage: WorkloadStage, record: InputRecord) -> Sequence[Output]:
        return [
            out
            if out.topic in workload.tables
            else out._replace(headers=(*out.headers, *_padding(out, record_bytes)))
            for out in stage.transform(record)
        ]

    return replace(
        workload,
        feed=tuple(replace(feed, make=partial(fed, feed)) for feed in workload.feed),
        stages=tuple(replace(stage, transform=partial(transform, stage)) for stage in workload.stages),
    )


def _padding(record: FeedRecord | Output, record_bytes: int) -> Headers:
    lacking = record_bytes - len(record.key or b"") - len(record.value or b"")
    return ((PAD_HEADER, _pad(record_bytes)[:lacking]),) if lacking > 0 else ()


@cache
def _pad(count: int) -> bytes:
    """That many bytes, the same in every process, which no compression makes much smaller."""
    return Random(0).randbytes(count)
