"""The words of a history: what every room means by an operation, an outcome, a role.

An *operation* is what a process tried: an invocation, written before the act, and a completion,
written after. A *value* names one attempt to send, and is unique in the run. An *input* is a
place (topic, partition, offset), never a value. Times are nanoseconds of one monotonic clock
since the run began, the same for every process.
"""

from enum import StrEnum


class Outcome(StrEnum):
    """How an operation ended, as far as its client can know."""

    OK = "ok"  # it took effect
    FAIL = "fail"  # it never will
    INFO = "info"  # nobody can say


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
    """What a pipeline promises of each input."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    AT_MOST_ONCE = "at-most-once"

    @property
    def permits(self) -> str | None:
        """The anomaly that this guarantee exists to permit; None: it permits none."""
        return {self.AT_LEAST_ONCE: "reprocessed-input", self.AT_MOST_ONCE: "lost-input"}.get(self)


class OffsetTracking(StrEnum):
    """How a stage knows which of its inputs are done, and so what may be said of those that led to nothing."""

    GROUP = "group"  # a consumer group's offsets: all below them are done
    EACH = "each"  # each input says so itself, in any order; at the end of a run none is left
    ELSEWHERE = "elsewhere"  # in a place of its own, where nobody reads them


class Role(StrEnum):
    """What the process behind a journal was there for."""

    WORKER = "worker"  # runs a stage of the pipeline under test
    FEEDER = "feeder"  # writes the inputs
    OBSERVER = "observer"  # reads the outputs while the run goes on
    FINAL = "final"  # reads everything to the sentinels, at the end


class Fate(StrEnum):
    """What the brokers' log says became of a data record.

    `plain` if its batch is not transactional; else the type of the first control batch with the
    same producer id at a higher offset of the same partition, whatever its epoch; `open` if there
    is none. It is what brokers and read-committed consumers do.
    """

    PLAIN = "plain"
    COMMIT = "commit"
    ABORT = "abort"
    OPEN = "open"


class WorkerStep(StrEnum):
    """The named steps of a worker's loop, where it can be struck."""

    BEFORE_POLL = "before-poll"
    AFTER_POLL = "after-poll"
    AFTER_TRANSFORM = "after-transform"
    AFTER_SEND = "after-send"
    AFTER_OFFSETS = "after-offsets"
    BEFORE_COMMIT = "before-commit"
    WHILE_COMMITTING = "while-committing"
    AFTER_COMMIT = "after-commit"


STEPS_WITH_INPUT = (WorkerStep.AFTER_POLL, WorkerStep.AFTER_TRANSFORM)
"""Where a worker of any delivery has inputs in hand, and has begun nothing with them."""

WARM_UP = "fencepost-warm-up"
"""A group, and the stem of transactional ids, by which a run has its coordinators used before its pipeline begins."""
VALUE_HEADER = "fencepost-value"
"""Names the attempt: the one header that a digest leaves out, for it differs at each attempt."""
SOURCE_HEADER = "fencepost-from"
"""The inputs that an output comes from: `topic/partition/offset`, separated by commas."""
OUTPUT_NAME_HEADER = "fencepost-output_name"
"""Which of the outputs expected of its inputs this one is."""
TIME_HEADER = "fencepost-time"
"""Says that the record's time stamp is its producer's own, and which: then a digest covers the time stamp, too."""
PAD_HEADER = "fencepost-pad"
"""Makes a record as large as a run asks for."""
OWN_HEADERS = frozenset({VALUE_HEADER, SOURCE_HEADER, OUTPUT_NAME_HEADER, TIME_HEADER, PAD_HEADER})
"""The headers of the run's own: a pipeline's transform is given all others."""
SENTINEL_VALUE = "fencepost-sentinel"
"""Begins the value of the record that stands last in each partition."""


def outputs_in(topic: str) -> str:
    """The key of a verdict's coverage that counts the visible outputs in a topic."""
    return f"outputs in {topic}"


class Exercise(StrEnum):
    """What only some runs ask to be counted: the keys of a verdict's coverage that count it."""

    SEVERAL_TOPICS = "over several topics"  # committed, with inputs of more than one topic
    EMPTY = "empty"  # committed, with neither outputs nor offsets
    OFFSETS_ONLY = "offsets only"  # committed without outputs
    OUTPUTS_ONLY = "outputs only"  # committed without offsets
    TIMED_OUT = "timed out"  # aborted by the coordinator, because they had been open for too long
    READ_WITHIN = (
        "read within transactions"  # records of others that committed ones were given by their own polls
    )
    GIVEN_UP = "partitions given up"  # how often a consumer had a partition no longer


class Premise(StrEnum):
    """What some checks rest on, and some faults break; then those checks are not made, and that is told."""

    LEADER_ALWAYS = "leader-always"  # no partition is without a leader for long
    NO_LATE_BYTES = "no-late-bytes"  # no request arrives after its connection has ended
    ONE_CLOCK = "one-clock"  # brokers and clients agree on the time
    WHOLE_LOGS = "whole-logs"  # no log loses what was written to it
