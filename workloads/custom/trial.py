"""A trial of a user's functions before anything is started: made inputs, and what must come of them, twice each.

It runs in a process of its own, for a function may hang, or end the process.
"""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from zlib import crc32

from harness.common.errors import UsageError
from harness.model.expectation import InputRecord
from workloads.custom.correlation import Correlation
from workloads.custom.description import ExpectedOutputs, PipelineDescription
from workloads.custom.expectation import CustomExpectation, Made
from workloads.custom.functions import UserError
from workloads.custom.pipeline import CustomPipeline

TRIED = 20
"""Inputs of each topic."""
TIMEOUT_S = 30.0
PARTITIONS = 6
"""Of a topic of which the file says nothing: more than one."""
WELL = "every function was tried"


def require_working(described: PipelineDescription) -> None:
    """Raise `UsageError` where a function of the pipeline raises, hangs, gives nonsense, or what it gave differs."""
    if not described.functions and not any(one.file for one in described.inputs.values()):
        return
    argv = [sys.executable, "-P", "-m", "workloads.custom.trial", str(described.file)]
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        names = ", ".join(map(str, described.functions))
        raise UsageError(
            f"{described.file}: a function ({names}) did not come to its end on {TRIED} inputs within {TIMEOUT_S:g} s"
        ) from None
    if done.returncode != 0 or WELL not in done.stdout:  # a function may have ended the process with 0
        last = (done.stdout.strip() or done.stderr.strip()).splitlines()
        words = last[-1] if last else f"it ended with status {done.returncode} and said nothing"
        raise UsageError(f"{described.file}: {words}")


def trial(pipeline: CustomPipeline) -> None:
    """Make inputs, and ask what must come of them, through all stages. Raises `UserError`."""
    expect = pipeline.described.expect
    given = list(_inputs(pipeline))
    if expect is None:
        return
    judged = Correlation(expect).content
    first, second = (list(_told(pipeline, expect, given)) for _ in range(2))
    for (topic, one), (_, other) in zip(first, second, strict=True):
        if [(to, judged(*held)) for to, *held in one] != [(to, judged(*held)) for to, *held in other]:
            raise UserError(
                f"what must come of an input in {topic} differs from one call to the next ({one!r}, then {other!r}): "
                "leave out what is random or of the moment, and name it in `ignore`"
            )


def _inputs(pipeline: CustomPipeline) -> Iterator[InputRecord]:
    """Those that are tried."""
    for feed in pipeline.feeds():
        rng = Random("trial")
        for n in range(min(TRIED, feed.count if feed.count is not None else TRIED)):
            fed = feed.make(rng, n)
            where = _partition(pipeline, feed.topic, fed.key, n)
            yield InputRecord(feed.topic, fed.key, fed.value, where, headers=fed.headers)


def _partition(pipeline: CustomPipeline, topic: str, key: bytes | None, n: int) -> int:
    """Some partition: of a key always the same, without one any. Clients take an empty key for none."""
    made = pipeline.described.topics.get(topic)
    count = made.partitions if made and made.partitions else PARTITIONS
    return (crc32(key) if key else n) % count


def _told(
    pipeline: CustomPipeline, expect: ExpectedOutputs, given: Sequence[InputRecord]
) -> Iterator[tuple[str, Sequence[Made]]]:
    """Each of them, and what must come of it."""
    asked = CustomExpectation(pipeline.described, expect)
    for record in given:
        yield from _through(pipeline, asked, record)


def _through(
    pipeline: CustomPipeline, asked: CustomExpectation, record: InputRecord, depth: int = 0
) -> Iterator[tuple[str, Sequence[Made]]]:
    made = asked.expected_of(record)
    for asks in (asked.due, asked.adds):
        list(asks(record))  # each has a stage, and a key where it needs one
    yield record.topic, made
    correlation = Correlation(asked.expect)
    joined = any(topic not in asked.final for topic, _, _ in made)
    wanted = correlation.of_input(record) if joined else None
    for topic, key, value in made:
        where = _partition(pipeline, topic, key, record.partition)
        output = InputRecord(topic, key, value, where, headers=record.headers)  # as if it had forwarded them
        found = wanted if topic in asked.final else correlation.of_output(output)
        if wanted not in (None, found):
            raise UserError(
                f"`correlate` finds {wanted!r} in an input of {record.topic} and {found!r} in an output in {topic} "
                f"that must come of it ({(key, value)!r}), so nothing joins the two"
            )
        if topic in pipeline.read and depth < len(pipeline.described.stages):
            yield from _through(pipeline, asked, output, depth + 1)


def main(argv: Sequence[str]) -> int:
    """Exit status 0, or 2 and a sentence."""
    try:
        trial(CustomPipeline.load(Path(argv[0])))
    except UsageError as error:
        sys.stdout.write(f"\n{error}\n")
        return 2
    sys.stdout.write(f"\n{WELL}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
