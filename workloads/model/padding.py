"""Large records: pad every record of a workload to the size that the options ask for.

The padding is in a separate header. No transform sees it, and every digest covers it.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from random import Random

from harness.model.expectation import Feed, FeedRecord, Headers, InputRecord
from harness.model.vocabulary import PAD_HEADER
from workloads.model.workload import Output, Workload, WorkloadStage

OVERHEAD_BYTES = 65_536
"""An upper bound for the headers of a record and the overhead of its batch."""
DEFAULT_LIMIT_BYTES = 900_000
"""Records up to this size fit the default limits of brokers and clients."""


def largest_bytes(record_bytes: int) -> int | None:
    """Return the largest record or batch that brokers and clients must accept. None: their default limits suffice."""
    return record_bytes + OVERHEAD_BYTES if record_bytes > DEFAULT_LIMIT_BYTES else None


def padded(workload: Workload, record_bytes: int) -> Workload:
    """Return the workload with records padded to at least `record_bytes` (key, value and padding).

    Records of feeds and all outputs are padded, except sums and rows of tables. With 0 the workload is unchanged.
    """
    if not record_bytes:
        return workload

    def make_padded(feed: Feed, rng: Random, n: int) -> FeedRecord:
        feed_record = feed.make(rng, n)
        return feed_record._replace(headers=(*feed_record.headers, *_padding(feed_record, record_bytes)))

    def transform(stage: WorkloadStage, record: InputRecord) -> Sequence[Output]:
        return [
            out
            if out.topic in workload.tables
            else out._replace(headers=(*out.headers, *_padding(out, record_bytes)))
            for out in stage.transform(record)
        ]

    return replace(
        workload,
        feed=tuple(replace(feed, make=partial(make_padded, feed)) for feed in workload.feed),
        stages=tuple(replace(stage, transform=partial(transform, stage)) for stage in workload.stages),
    )


def _padding(record: FeedRecord | Output, record_bytes: int) -> Headers:
    lacking = record_bytes - len(record.key or b"") - len(record.value or b"")
    return ((PAD_HEADER, _pad(record_bytes)[:lacking]),) if lacking > 0 else ()


@cache
def _pad(count: int) -> bytes:
    """Return `count` bytes that are the same in every process and that hardly compress."""
    return Random(0).randbytes(count)
