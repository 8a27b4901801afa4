"""Try a user's functions before a run starts: make inputs, and call the functions twice for each input.

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

INPUTS_PER_TOPIC = 20
"""The number of inputs of each topic that are made."""
LINES_PER_FILE = 200_000
"""The number of lines of a file of inputs that are read. This takes two seconds."""
TIMEOUT_S = 30.0
PARTITIONS = 6
"""The number of partitions of a topic for which the file gives none. It must be more than one."""
SUCCESS_LINE = "every function was tried"
"""The last line of the output if no function failed."""


def require_working(description: PipelineDescription) -> None:
    """Raise `UsageError` if a function raises, hangs, returns a wrong value, or returns two values for one input."""
    if not description.functions and not any(source.file for source in description.inputs.values()):
        return
    argv = [sys.executable, "-P", "-m", "workloads.custom.trial", str(description.file)]
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
            f"{description.file}: a function ({names}) did not finish {INPUTS_PER_TOPIC} inputs within {TIMEOUT_S:g} s"
        ) from None
    if process.returncode != 0 or SUCCESS_LINE not in process.stdout:  # a function can exit with status 0
        lines = (process.stdout.strip() or process.stderr.strip()).splitlines()
        message = lines[-1] if lines else f"a function ended the process with status {process.returncode}"
        raise UsageError(f"{description.file}: {message}")


def trial(pipeline: CustomPipeline) -> None:
    """Make inputs, and call the functions as the final readers will do. Raises `UserError`."""
    expect = pipeline.description.expect
    inputs = list(_inputs(pipeline))
    if expect is None:
        return
    content = Correlation(expect).content
    first, second = (list(_expected_outputs(pipeline, expect, inputs)) for _ in range(2))
    for (topic, first_records), (_, second_records) in zip(first, second, strict=True):
        if [(output_topic, content(key, value)) for output_topic, key, value in first_records] != [
            (output_topic, content(key, value)) for output_topic, key, value in second_records
        ]:
            raise UserError(
                f"the expected outputs of an input in {topic} differ between two calls ({first_records!r}, then "
                f"{second_records!r}): remove values that are random or depend on the time, or name them in `ignore`"
            )


def _inputs(pipeline: CustomPipeline) -> Iterator[InputRecord]:
    """Yield the inputs to try."""
    for feed in pipeline.feeds():
        rng = Random("trial")
        for n in range(min(feed.count or 0, LINES_PER_FILE)):
            feed.make(rng, n)  # a file of inputs: a wrong line is found before the run
        for n in range(min(INPUTS_PER_TOPIC, feed.count if feed.count is not None else INPUTS_PER_TOPIC)):
            made = feed.make(rng, n)
            partition = _partition(pipeline, feed.topic, made.key, n)
            yield InputRecord(feed.topic, made.key, made.value, partition, headers=made.headers)


def _partition(pipeline: CustomPipeline, topic: str, key: bytes | None, n: int) -> int:
    """Return a partition: always the same for a key, any partition without a key.

    An empty key counts as no key, as it does in clients.
    """
    settings = pipeline.description.topics.get(topic)
    count = settings.partitions if settings and settings.partitions else PARTITIONS
    return (crc32(key) if key else n) % count


def _expected_outputs(
    pipeline: CustomPipeline, expect: ExpectedOutputs, inputs: Sequence[InputRecord]
) -> Iterator[tuple[str, Sequence[ExpectedRecord]]]:
    """Yield the topic of each input, and the expected outputs."""
    expectation = CustomExpectation(pipeline.description, expect)
    for record in inputs:
        yield from _through_stages(pipeline, expectation, record)


def _through_stages(
    pipeline: CustomPipeline, expectation: CustomExpectation, record: InputRecord, depth: int = 0
) -> Iterator[tuple[str, Sequence[ExpectedRecord]]]:
    expected_records = expectation.expected_of(record)
    for method in (expectation.expected_outputs, expectation.expected_sums):
        list(method(record))  # raises if an output has no stage, or has no key although it needs one
    yield record.topic, expected_records
    correlation = Correlation(expectation.expect)
    joined = any(topic not in expectation.final for topic, _, _ in expected_records)
    input_key = correlation.of_input(record) if joined else None
    for topic, key, value in expected_records:
        partition = _partition(pipeline, topic, key, record.partition)
        # The program may copy the headers of the input, so the output gets them here.
        output = InputRecord(topic, key, value, partition, headers=record.headers)
        output_key = input_key if topic in expectation.final else correlation.of_output(output)
        if input_key not in (None, output_key):
            raise UserError(
                f"`correlate` finds {input_key!r} in an input of {record.topic} and {output_key!r} in its expected "
                f"output in {topic} ({(key, value)!r}): make the two equal, so that the output is joined to the input"
            )
        if topic in pipeline.read and depth < len(pipeline.description.stages):
            yield from _through_stages(pipeline, expectation, output, depth + 1)


def main(argv: Sequence[str]) -> int:
    """Exit with status 0, or with 2 and a message."""
    try:
        trial(CustomPipeline.load(Path(argv[0])))
    except UsageError as error:
        sys.stdout.write(f"\n{error}\n")
        return 2
    sys.stdout.write(f"\n{SUCCESS_LINE}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
