"""The expected outputs of a custom pipeline, from the user's own functions. Only the final readers call them."""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from harness.common.wording import unknown
from harness.model.expectation import CorrelationKey, ExpectedOutput, ExpectedSum, Headers, InputRecord
from harness.record.naming import excerpt
from workloads.custom.correlation import Correlation
from workloads.custom.description import PARTS, ExpectedOutputs, PipelineDescription
from workloads.custom.functions import (
    UserError,
    as_bytes,
    as_headers,
    as_partition,
    as_timestamp_ms,
    call_with_record,
)
from workloads.custom.names import name_in_file, name_in_run

FIELDS = ("topic", "key", "value", *PARTS)
"""The fields of an expected output in a dict that a function returns."""
FORMS = '(topic, key, value) or {"topic": "...", "key": "...", "value": "..."}'


class ExpectedRecord(NamedTuple):
    """An expected output. `headers`, `timestamp_ms` and `partition` are not compared if None."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers | None = None
    timestamp_ms: int | None = None
    partition: int | None = None


class CustomExpectation:
    """An `Expectation` from the user's `outputs` or `fold`.

    `fold` gets the state of the input's key, so it must be called for the inputs in their order.
    """

    def __init__(self, description: PipelineDescription, expect: ExpectedOutputs) -> None:
        self._description, self.expect = description, expect
        self._correlation = Correlation(expect, partial(name_in_file, description))
        self._written = {topic for stage in description.stages for topic in stage.writes}
        self.final = {name_in_run(description, topic) for topic in expect.final}
        self._last: dict[tuple[str, bytes], tuple[int, tuple[str, int]]] = {}
        self._last_result: tuple[InputRecord | None, Sequence[ExpectedRecord]] = (None, ())
        self._states: dict[tuple[str, Hashable], Any] = {}
        self._partitions: dict[tuple[str, Hashable], int] = {}

    def expected_outputs(self, record: InputRecord) -> Iterator[ExpectedOutput]:
        """Yield the expected outputs of an input. Raises `UserError`."""
        expected_records = [
            expected for expected in self.expected_of(record) if expected.topic not in self.final
        ]
        correlation_key, numbers = (
            self._correlation.of_input(record) if expected_records else None,
            Counter[str](),
        )
        for expected in expected_records:
            topic, key, value, headers, timestamp_ms, partition = expected
            numbers[topic] += 1
            more = self._correlation.other_parts(topic, headers, timestamp_ms, partition)
            digest = self._correlation.digest(key, value, more)
            yield ExpectedOutput(
                stage=self._stage_of(record.topic, topic),
                output_name=topic if numbers[topic] == 1 else f"{topic}#{numbers[topic]}",
                topic=topic,
                digest=partial(_constant_digest, digest),
                correlation_key=correlation_key
                if correlation_key is not None
                else self._correlation.content(key, value),
                content=excerpt(key, value, more),
            )

    def expected_of(self, record: InputRecord) -> Sequence[ExpectedRecord]:
        """Return the expected outputs of an input. Raises `UserError`.

        The user's function is called only once for each input, because `fold` has a state. An output of a stage
        without a correlation key was not expected, so nothing is expected from it.
        """
        if self._last_result[0] is not record:
            unknown_output = record.topic in self._written and self._correlation.of_output(record) is None
            self._last_result = (record, () if unknown_output else self.call_function(record))
        return self._last_result[1]

    def call_function(self, record: InputRecord) -> Sequence[ExpectedRecord]:
        """Return the expected outputs that the user's function returns for this input. Raises `UserError`."""
        if self.expect.outputs is not None:
            name = str(self.expect.outputs)
            topic = name_in_file(self._description, record.topic)
            result = call_with_record(
                self.expect.outputs, record, topic, record.key, record.value, dict(record.headers)
            )
        else:
            assert self.expect.fold is not None
            name, state_key = str(self.expect.fold), (record.topic, self._fold_key(record))
            topic = name_in_file(self._description, record.topic)
            state_and_outputs = call_with_record(
                self.expect.fold, record, self._states.get(state_key), topic, record.key, record.value
            )
            if not isinstance(state_and_outputs, tuple) or len(state_and_outputs) != 2:
                raise UserError(
                    f"{name} must return (state, [(topic, key, value), ...]), not {state_and_outputs!r}"
                )
            self._states[state_key], result = state_and_outputs
            if self._partitions.setdefault(state_key, record.partition) != record.partition:
                raise UserError(
                    f"{name}: records of the key {state_key[1]!r} are in several partitions of {record.topic}, so "
                    "their order is not known: give the topic one partition, or give each input a `partition`"
                )
        if not isinstance(result, list | tuple):
            raise UserError(f"{name} must return a list of (topic, key, value), not {type(result).__name__}")
        return [self._as_expected_record(name, element) for element in result]

    def _fold_key(self, record: InputRecord) -> Hashable:
        """Return the key of the state of `fold` for an input. Raises `UserError`."""
        function = self.expect.fold_key
        if function is None:
            return record.key
        topic, headers = name_in_file(self._description, record.topic), dict(record.headers)
        fold_key = call_with_record(function, record, topic, record.key, record.value, headers)
        if not isinstance(fold_key, Hashable):
            raise UserError(
                f"{function} must return the key of a state, such as a text or a number, not {fold_key!r}"
            )
        return fold_key

    def _as_expected_record(self, name: str, element: object) -> ExpectedRecord:
        if isinstance(element, tuple | list) and len(element) == 3:
            element = dict(zip(FIELDS, element, strict=False))
        if (
            not isinstance(element, dict)
            or not isinstance(element.get("topic"), str)
            or not {"key", "value"} <= element.keys()
        ):
            raise UserError(f"{name} must return {FORMS}, not {element!r}")
        for given in element:
            if given not in FIELDS:
                raise UserError(f"{name} returns an unknown field: {unknown('field', str(given), FIELDS)}")
        topic = element["topic"]
        self._require_compared(name, topic, element)
        headers = element.get("headers")
        return ExpectedRecord(
            name_in_run(self._description, topic),
            as_bytes(element["key"], f"{name}: the key"),
            as_bytes(element["value"], f"{name}: the value"),
            None if headers is None else as_headers(name, headers),
            as_timestamp_ms(name, element.get("timestamp_ms")),
            as_partition(name, element.get("partition")),
        )

    def _require_compared(self, name: str, topic: str, fields: Mapping[str, object]) -> None:
        """Raise `UserError` unless the output has exactly the parts that are compared in its topic."""
        compared = self.expect.compare.get(topic, ())
        for part in PARTS:
            if (fields.get(part) is not None) == (part in compared):
                continue
            if part in compared:
                raise UserError(
                    f"{name} must give {part} for each output in {topic}, because `compare` names it: give it, or "
                    "remove it from `compare`"
                )
            if topic in self.expect.final:
                raise UserError(
                    f"{name} gives {part} for an output in {topic}, but `final` has this topic, so only the value of a "
                    f"key's last record is compared: remove {part}"
                )
            names = ", ".join(f'"{name}"' for name in PARTS if name in (*compared, part))
            raise UserError(
                f"{name} gives {part} for an output in {topic}, but it would not be compared: write "
                f"compare.{topic} = [{names}] in [expect]"
            )

    def expected_sums(self, record: InputRecord) -> Iterator[ExpectedSum]:
        """Yield what an input adds to sums. Raises `UserError`.

        In a `final` topic only the last record of a key is checked. Its digest is treated as a sum: each input adds
        the difference between the digest that it leads to and the digest before.
        """
        last_values = {
            (expected.topic, expected.key): expected.value
            for expected in self.expected_of(record)
            if expected.topic in self.final
        }
        for (topic, key), value in last_values.items():
            name, source = name_in_file(self._description, topic), (record.topic, record.partition)
            if key is None:
                raise UserError(
                    f"`final` has {name}, but the record {value!r} has no key, so there is no last record of its key"
                )
            before, previous_source = self._last.get((topic, key), (0, source))
            if previous_source != source:
                raise UserError(
                    f"`final` has {name}, but records of the key {key!r} come from inputs in "
                    f"{_partition_name(previous_source)} and in {_partition_name(source)}, so it is not known which "
                    "is the last: give the input topic one partition"
                )
            digest = self._final_digest(key, value)
            self._last[topic, key] = digest, source
            yield ExpectedSum(
                self._stage_of(record.topic, topic), topic, key, digest - before, excerpt(key, value)
            )

    def held_sum(self, record: InputRecord) -> int | None:
        """Return the digest of a record in a `final` topic; None for other topics."""
        return self._final_digest(record.key, record.value) if record.topic in self.final else None

    def _final_digest(self, key: bytes | None, value: bytes | None) -> int:
        """Return the digest. It is 0 for a null value, which deletes the key."""
        return 0 if value is None else self._correlation.digest(key, value)

    def correlation_key(self, record: InputRecord) -> CorrelationKey | None:
        """Return the correlation key of an output; None in a `final` topic, where only the record key counts."""
        if record.topic in self.final:
            return None
        more = self._correlation.other_parts(
            record.topic, record.headers, record.timestamp_ms, record.partition
        )
        digest = self._correlation.digest(record.key, record.value, more)
        return CorrelationKey(self._correlation.of_output(record), digest, more)

    def _stage_of(self, input_topic: str, output_topic: str) -> str:
        for stage in self._description.stages:
            if input_topic in stage.reads and output_topic in stage.writes:
                return stage.name
        raise UserError(
            f"{self.expect.outputs or self.expect.fold} expects outputs in {output_topic} from inputs in "
            f"{input_topic}, but no [[stage]] reads {input_topic} and writes {output_topic}"
        )


class NothingExpected:
    """The `Expectation` of a pipeline without [expect]."""

    def expected_outputs(self, record: InputRecord) -> tuple[ExpectedOutput, ...]:
        return ()

    def expected_sums(self, record: InputRecord) -> tuple[ExpectedSum, ...]:
        return ()

    def held_sum(self, record: InputRecord) -> None:
        pass

    def correlation_key(self, record: InputRecord) -> None:
        pass


def _partition_name(topic_partition: tuple[str, int]) -> str:
    return f"{topic_partition[0]}/{topic_partition[1]}"


def _constant_digest(digest: int, partition: int, offset: int) -> int:
    """Return the digest, which does not depend on the position of the input."""
    return digest
