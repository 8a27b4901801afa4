"""Try a user's functions before a run starts: make inputs, and call the functions twice for each input.

This runs in a separate process, because a function can hang or exit.
"""

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from zlib import crc32

from harness.common.errors import UsageError
from harness.model.expectation import Feed, InputRecord
from workloads.custom.correlation import Correlation
from workloads.custom.description import ExpectedOutputs, PipelineDescription
from workloads.custom.expectation import CustomExpectation, ExpectedRecord
from workloads.custom.functions import UserError, as_partition
from workloads.custom.pipeline import CustomPipeline

INPUTS_PER_TOPIC = 20
"""The number of inputs of each topic that are made."""
LINES_PER_FILE = 200_000
"""The number of lines of a file of inputs that are read. This takes two seconds."""
TIMEOUT_S = 30.0
PARTITIONS = 6
"""The default number of partitions of a topic."""
SUCCESS_LINE = "every function was tried"
"""The last line of the output if no function failed."""


def require_working(description: PipelineDescription, partitions: int = PARTITIONS) -> None:
    """Raise `UsageError` if a function raises, hangs, returns a wrong value, or different values for the same input.

    Args:
        description: the contents of pipeline.toml.
        partitions: the number of partitions of a topic for which the file gives none.
    """
    if not description.functions and not any(source.file for source in description.inputs.values()):
        return
    argv = [sys.executable, "-P", "-m", "workloads.custom.trial", str(description.file), str(partitions)]
    try:
        process = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
            encoding="utf-8",
        )
    except subprocess.TimeoutExpired:
        names = ", ".join(map(str, description.functions))
        raise UsageError(
            f"{description.file}: a function ({names}) did not finish {INPUTS_PER_TOPIC} inputs within "
            f"{TIMEOUT_S:g} s: make it faster"
        ) from None
    if process.returncode != 0 or SUCCESS_LINE not in process.stdout:  # a function can exit with status 0
        lines = (process.stdout.strip() or process.stderr.strip()).splitlines()
        message = lines[-1] if lines else f"a function ended the process with status {process.returncode}"
        raise UsageError(f"{description.file}: {message}")


def trial(pipeline: CustomPipeline, partitions: int) -> None:
    """Make inputs, and call the functions as the final readers will do. Raises `UserError`.

    Args:
        pipeline: the pipeline.
        partitions: the number of partitions of a topic for which the file gives none.
    """
    expect = pipeline.description.expect
    topics = pipeline.description.topics
    counts = {
        topic: (topics[topic].partitions if topic in topics else None) or partitions
        for topic in (*pipeline.description.inputs, *pipeline.written)
    }
    inputs = list(_inputs(pipeline, counts))
    if expect is None:
        return
    correlation = Correlation(expect)

    def compared(expected: ExpectedRecord) -> tuple[str, ...]:
        topic, key, value, headers, timestamp_ms, partition = expected
        more = correlation.other_parts(topic, headers, timestamp_ms, partition)
        return topic, correlation.content(key, value), more

    first, second = (list(_expected_outputs(pipeline, expect, inputs, counts)) for _ in range(2))
    for (topic, first_records), (_, second_records) in zip(first, second, strict=True):
        if list(map(compared, first_records)) != list(map(compared, second_records)):
            shown, other = (
                [_shown(expected) for expected in records] for records in (first_records, second_records)
            )
            raise UserError(
                f"the expected outputs of an input in {topic} differ between two calls ({shown!r}, then {other!r}): "
                "remove values that are random or depend on the time, or name them in `ignore`"
            )


def _shown(expected: ExpectedRecord) -> tuple[object, ...]:
    """Return the fields that are given, for a message."""
    return tuple(expected[:3]) + tuple(part for part in expected[3:] if part is not None)


def _inputs(pipeline: CustomPipeline, counts: Mapping[str, int]) -> Iterator[InputRecord]:
    """Yield the inputs to try."""
    now_ms = round(1000 * time.time())
    for feed in pipeline.feeds(counts):
        rng = Random("trial")
        for n in range(min(feed.count or 0, LINES_PER_FILE)):
            feed.make(rng, n)  # a file of inputs: a wrong line is found before the run
        for n in range(min(INPUTS_PER_TOPIC, feed.count if feed.count is not None else INPUTS_PER_TOPIC)):
            made = feed.make(rng, n)
            partition, timestamp_ms = made.partition, made.timestamp_ms
            yield InputRecord(
                feed.topic,
                made.key,
                made.value,
                _input_partition(feed, made.key, n) % counts[feed.topic] if partition is None else partition,
                headers=made.headers,
                timestamp_ms=now_ms if timestamp_ms is None else timestamp_ms,
            )


def _input_partition(feed: Feed, key: bytes | None, n: int) -> int:
    """Return a number that is the same for a key if the partitioner sends a key always to the same partition.

    `consistent_random` treats an empty key as no key. The other partitioners do not.
    """
    keyless = not key if feed.partitioner == "consistent_random" else key is None
    to_any = feed.partitioner == "random" or (keyless and str(feed.partitioner).endswith("_random"))
    return n if to_any else crc32(key or b"")


def _output_partition(counts: Mapping[str, int], topic: str, key: bytes | None, n: int) -> int:
    """Return a partition: always the same for a key, any partition without a key.

    An empty key counts as no key, as it does in some clients.
    """
    return (crc32(key) if key else n) % counts.get(topic, PARTITIONS)


def _expected_outputs(
    pipeline: CustomPipeline,
    expect: ExpectedOutputs,
    inputs: Sequence[InputRecord],
    counts: Mapping[str, int],
) -> Iterator[tuple[str, Sequence[ExpectedRecord]]]:
    """Yield the topic of each input, and the expected outputs."""
    expectation = CustomExpectation(pipeline.description, expect)
    for record in inputs:
        yield from _through_stages(pipeline, expectation, record, counts)


def _through_stages(
    pipeline: CustomPipeline,
    expectation: CustomExpectation,
    record: InputRecord,
    counts: Mapping[str, int],
    depth: int = 0,
) -> Iterator[tuple[str, Sequence[ExpectedRecord]]]:
    expected_records = expectation.expected_of(record)
    for method in (expectation.expected_outputs, expectation.expected_sums):
        list(method(record))  # raises if an output has no stage, or has no key although it needs one
    yield record.topic, expected_records
    correlation = Correlation(expectation.expect)
    joined = any(expected.topic not in expectation.final for expected in expected_records)
    input_key = correlation.of_input(record) if joined else None
    for expected in expected_records:
        topic, key, value = expected[:3]
        partition = as_partition(f"an expected output in {topic}", expected.partition, counts.get(topic))
        # The program may copy headers and time stamp of the input, so the output gets them if others are not expected.
        output = InputRecord(
            topic,
            key,
            value,
            _output_partition(counts, topic, key, record.partition) if partition is None else partition,
            headers=record.headers if expected.headers is None else expected.headers,
            timestamp_ms=expected.timestamp_ms or record.timestamp_ms,
        )
        output_key = input_key if topic in expectation.final else correlation.of_output(output)
        if input_key not in (None, output_key):
            raise UserError(
                f"`correlate` finds {input_key!r} in an input of {record.topic} and {output_key!r} in its expected "
                f"output in {topic} ({(key, value)!r}): make the two equal, so that the output is joined to the input"
            )
        if topic in pipeline.read and depth < len(pipeline.description.stages):
            yield from _through_stages(pipeline, expectation, output, counts, depth + 1)


def main(argv: Sequence[str]) -> int:
    """Exit with status 0, or with 2 and a message."""
    try:
        trial(CustomPipeline.load(Path(argv[0])), int(argv[1]))
    except UsageError as error:
        sys.stdout.write(f"\n{error}\n")
        return 2
    sys.stdout.write(f"\n{SUCCESS_LINE}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
