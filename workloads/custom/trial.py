"""Try a user's functions before anything starts: make inputs, and call the functions twice for each.

This runs in a separate process, because a function can hang or exit.
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
from workloads.custom.expectation import CustomExpectation, ExpectedRecord
from workloads.custom.functions import UserError
from workloads.custom.pipeline import CustomPipeline

TRIED = 20
"""The number of inputs of each topic."""
TIMEOUT_S = 30.0
PARTITIONS = 6
"""The number of partitions of a topic for which the file names none; more than one."""
WELL = "every function was tried"


def require_working(described: PipelineDescription) -> None:
    """Raise `UsageError` if a function raises, hangs, returns a wrong value, or returns different values for the
    same input.
    """
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
            f"{described.file}: a function ({names}) did not finish {TRIED} inputs within {TIMEOUT_S:g} s"
        ) from None
    if done.returncode != 0 or WELL not in done.stdout:  # a function can exit with status 0
        last = (done.stdout.strip() or done.stderr.strip()).splitlines()
        message = last[-1] if last else f"it ended with status {done.returncode} and printed nothing"
        raise UsageError(f"{described.file}: {message}")


def trial(pipeline: CustomPipeline) -> None:
    """Make inputs and call the functions for all stages. Raises `UserError`."""
    expect = pipeline.described.expect
    inputs = list(_inputs(pipeline))
    if expect is None:
        return
    content = Correlation(expect).content
    first, second = (list(_expected_outputs(pipeline, expect, inputs)) for _ in range(2))
    for (topic, first_records), (_, second_records) in zip(first, second, strict=True):
        if [(to, content(*held)) for to, *held in first_records] != [
            (to, content(*held)) for to, *held in second_records
        ]:
            raise UserError(
                f"the expected outputs of an input in {topic} differ between two calls ({first_records!r}, then "
                f"{second_records!r}): remove values that are random or depend on the time, or name them in `ignore`"
            )


def _inputs(pipeline: CustomPipeline) -> Iterator[InputRecord]:
    """Yield the inputs to try."""
    for feed in pipeline.feeds():
        rng = Random("trial")
        for n in range(min(TRIED, feed.count if feed.count is not None else TRIED)):
            fed = feed.make(rng, n)
            where = _partition(pipeline, feed.topic, fed.key, n)
            yield InputRecord(feed.topic, fed.key, fed.value, where, headers=fed.headers)


def _partition(pipeline: CustomPipeline, topic: str, key: bytes | None, n: int) -> int:
    """Return a partition: always the same for a key, any without one. Clients treat an empty key as no key."""
    made = pipeline.described.topics.get(topic)
    count = made.partitions if made and made.partitions else PARTITIONS
    return (crc32(key) if key else n) % count


def _expected_outputs(
    pipeline: CustomPipeline, expect: ExpectedOutputs, inputs: Sequence[InputRecord]
) -> Iterator[tuple[str, Sequence[ExpectedRecord]]]:
    """Yield the topic of each input, and the expected outputs."""
    expectation = CustomExpectation(pipeline.described, expect)
    for record in inputs:
        yield from _through_stages(pipeline, expectation, record)


def _through_stages(
    pipeline: CustomPipeline, expectation: CustomExpectation, record: InputRecord, depth: int = 0
) -> Iterator[tuple[str, Sequence[ExpectedRecord]]]:
    expected_records = expectation.expected_of(record)
    for method in (expectation.expected_outputs, expectation.expected_sums):
        list(method(record))  # each has a stage, and a key where it needs one
    yield record.topic, expected_records
    correlation = Correlation(expectation.expect)
    joined = any(topic not in expectation.final for topic, _, _ in expected_records)
    input_key = correlation.of_input(record) if joined else None
    for topic, key, value in expected_records:
        where = _partition(pipeline, topic, key, record.partition)
        output = InputRecord(topic, key, value, where, headers=record.headers)  # as if it had forwarded them
        output_key = input_key if topic in expectation.final else correlation.of_output(output)
        if input_key not in (None, output_key):
            raise UserError(
                f"`correlate` finds {input_key!r} in an input of {record.topic} and {output_key!r} in its expected "
                f"output in {topic} ({(key, value)!r}): the two must be equal to be joined"
            )
        if topic in pipeline.read and depth < len(pipeline.described.stages):
            yield from _through_stages(pipeline, expectation, output, depth + 1)


def main(argv: Sequence[str]) -> int:
    """Exit with status 0, or with 2 and a message."""
    try:
        trial(CustomPipeline.load(Path(argv[0])))
    except UsageError as error:
        sys.stdout.write(f"\n{error}\n")
        return 2
    sys.stdout.write(f"\n{WELL}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
