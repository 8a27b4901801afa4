"""The words of a history: operations, outcomes, roles and the headers that Fencepost adds to records.

An *operation* is what a process tried. It has an invocation, written before the call, and a completion, written
after it. An *attempt* is one try to send a record; its name, the *value*, is unique in the run. An *input* is
identified by topic, partition and offset, never by its value. Times are nanoseconds since the run began. All processes
use one monotonic clock.
"""

from enum import StrEnum


class Outcome(StrEnum):
    """The outcome of an operation, as far as its client can know."""

    OK = "ok"  # it took effect
    FAIL = "fail"  # it never will
    INFO = "info"  # not known


class EventType(StrEnum):
    """The `type` of a line in a journal or in a history."""

    INVOKE = "invoke"
    OK = "ok"
    FAIL = "fail"
    INFO = "info"


class Isolation(StrEnum):
    """Kafka's `isolation.level`."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


class Guarantee(StrEnum):
    """The guarantee of a pipeline: how often it processes each input."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    AT_MOST_ONCE = "at-most-once"

    @property
    def permits(self) -> str | None:
        """The anomaly that this guarantee permits; None: it permits none."""
        return {self.AT_LEAST_ONCE: "reprocessed-input", self.AT_MOST_ONCE: "lost-input"}.get(self)


class OffsetTracking(StrEnum):
    """How a stage records which of its inputs it has processed. It decides which inputs can be called lost."""

    GROUP = "group"  # the offsets of a consumer group: all inputs below them are processed
    EACH = "each"  # a mark on each input, in any order; at the end of a run every input has it
    ELSEWHERE = "elsewhere"  # outside Kafka, where Fencepost does not read it


class Role(StrEnum):
    """The role of the process that wrote a journal."""

    WORKER = "worker"  # runs a stage of the pipeline under test
    FEEDER = "feeder"  # writes the inputs
    OBSERVER = "observer"  # reads the outputs during the run
    FINAL = "final"  # reads every partition to its sentinel after the run


class Fate(StrEnum):
    """The fate of a data record, from the broker log.

    The fate is `plain` if the batch of the record is not transactional. Else it is the type of the first control batch
    of the same producer id at a higher offset of the partition, whatever its epoch. If there is none, it is `open`.
    Brokers and read-committed consumers use the same rule.
    """

    PLAIN = "plain"
    COMMIT = "commit"
    ABORT = "abort"
    OPEN = "open"


class WorkerStep(StrEnum):
    """The named steps of a worker's loop. A fault can be aimed at a step."""

    BEFORE_POLL = "before-poll"
    AFTER_POLL = "after-poll"
    AFTER_TRANSFORM = "after-transform"
    AFTER_SEND = "after-send"
    AFTER_OFFSETS = "after-offsets"
    BEFORE_COMMIT = "before-commit"
    WHILE_COMMITTING = "while-committing"
    AFTER_COMMIT = "after-commit"


STEPS_WITH_INPUT = (WorkerStep.AFTER_POLL, WorkerStep.AFTER_TRANSFORM)
"""Steps at which a worker of any delivery has polled inputs and has not begun to process them."""

WARM_UP = "fencepost-warm-up"
"""A group, and the prefix of transactional ids, with which a run uses all coordinators before its pipeline begins."""
VALUE_HEADER = "fencepost-value"
"""The name of the attempt. A digest leaves out this header, because it differs at each attempt."""
SOURCE_HEADER = "fencepost-from"
"""The inputs of an output, each as `topic/partition/offset`, separated by commas."""
OUTPUT_NAME_HEADER = "fencepost-output-name"
"""The output name: which of the expected outputs of its inputs the record is."""
TIME_HEADER = "fencepost-time"
"""The time stamp, if the producer of the record set it. Then a digest covers the time stamp, too."""
PAD_HEADER = "fencepost-pad"
"""Padding, which makes a record as large as the run requires."""
OWN_HEADERS = frozenset({VALUE_HEADER, SOURCE_HEADER, OUTPUT_NAME_HEADER, TIME_HEADER, PAD_HEADER})
"""The headers that Fencepost adds. The transform of a pipeline gets all other headers."""
SENTINEL_VALUE = "fencepost-sentinel"
"""The prefix of the value of a sentinel."""


def worker_of(process: str) -> str:
    """Return the worker or instance of a process: `bill-3` for `bill-3.0`, and for `bill-3`."""
    name, dot, number = process.rpartition(".")
    return name if dot and number.isdecimal() else process


def outputs_in(topic: str) -> str:
    """Return the key of a verdict's coverage that counts the visible outputs in a topic."""
    return f"outputs in {topic}"


class Exercise(StrEnum):
    """Keys of a verdict's coverage that only some runs have. Most of them count transactions."""

    SEVERAL_TOPICS = "over several topics"  # committed, with inputs of more than one topic
    EMPTY = "empty"  # committed, with neither outputs nor offsets
    OFFSETS_ONLY = "offsets only"  # committed without outputs
    OUTPUTS_ONLY = "outputs only"  # committed without offsets
    TIMED_OUT = "timed out"  # aborted by the coordinator because of the transaction time-out
    READ_WITHIN = (
        "read within transactions"  # records of other transactions that committed transactions polled
    )
    GIVEN_UP = "partitions given up"  # how often a consumer lost a partition


class Premise(StrEnum):
    """An assumption of some checks that some faults break. Then these checks are left out, with a reason."""

    LEADER_ALWAYS = "leader-always"  # no partition is without a leader for long
    NO_LATE_BYTES = "no-late-bytes"  # no request arrives after its connection has ended
    ONE_CLOCK = "one-clock"  # brokers and clients have the same clock
    WHOLE_LOGS = "whole-logs"  # no log loses a record that was written to it
