"""The expected outputs of a custom pipeline, from the user's own functions. Only the final readers call them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from harness.model.expectation import CorrelationKey, ExpectedOutput, ExpectedSum, InputRecord
from harness.record.naming import excerpt
from workloads.custom.correlation import Correlation
from workloads.custom.description import ExpectedOutputs, PipelineDescription
from workloads.custom.functions import UserError, as_bytes, call
from workloads.custom.tagged import name_in_file, name_in_run

ExpectedRecord = tuple[str, bytes | None, bytes | None]
"""Topic, key, value."""


class CustomExpectation:
    """An `Expectation` from the user's `outputs` or `fold`. `fold` gets the state of the key, so inputs must come
    in order.
    """

    def __init__(self, described: PipelineDescription, expect: ExpectedOutputs) -> None:
        self._described, self.expect = described, expect
        self._correlation = Correlation(expect, partial(name_in_file, described))
        self._written = {topic for stage in described.stages for topic in stage.writes}
        self.final = {name_in_run(described, topic) for topic in expect.final}
        self._last: dict[tuple[str, bytes], tuple[int, tuple[str, int]]] = {}
        self._last_result: tuple[InputRecord | None, Sequence[ExpectedRecord]] = (None, ())
        self._states: dict[tuple[str, bytes | None], Any] = {}
        self._partitions: dict[tuple[str, bytes | None], int] = {}

    def expected_outputs(self, record: InputRecord) -> Iterator[ExpectedOutput]:
        """Yield the expected outputs of an input. Raises `UserError`."""
        expected_records = [one for one in self.expected_of(record) if one[0] not in self.final]
        correlation_key, numbers = (
            self._correlation.of_input(record) if expected_records else None,
            Counter[str](),
        )
        for topic, key, value in expected_records:
            numbers[topic] += 1
            digest = self._correlation.digest(key, value)
            yield ExpectedOutput(
                stage=self._stage_of(record.topic, topic),
                output_name=topic if numbers[topic] == 1 else f"{topic}#{numbers[topic]}",
                topic=topic,
                digest=partial(_constant_digest, digest),
                correlation_key=correlation_key
                if correlation_key is not None
                else self._correlation.content(key, value),
                content=excerpt(key, value),
            )

    def expected_of(self, record: InputRecord) -> Sequence[ExpectedRecord]:
        """Return the expected outputs of an input. Calls the function once for each input, because `fold` has a
        state.

        An output that cannot be joined to an input leads to nothing downstream, because it was not expected
        either.

        Raises `UserError`.
        """
        if self._last_result[0] is not record:
            unknown_output = record.topic in self._written and self._correlation.of_output(record) is None
            self._last_result = (record, () if unknown_output else self.call_function(record))
        return self._last_result[1]

    def call_function(self, record: InputRecord) -> Sequence[ExpectedRecord]:
        """Return what the user's function expects for this input. Raises `UserError`."""
        if self.expect.outputs is not None:
            name = str(self.expect.outputs)
            topic = name_in_file(self._described, record.topic)
            result = call(self.expect.outputs, topic, record.key, record.value, dict(record.headers))
        else:
            assert self.expect.fold is not None
            name, state_key = str(self.expect.fold), (record.topic, record.key)
            topic = name_in_file(self._described, record.topic)
            state_and_outputs = call(
                self.expect.fold, self._states.get(state_key), topic, record.key, record.value
            )
            if not isinstance(state_and_outputs, tuple) or len(state_and_outputs) != 2:
                raise UserError(
                    f"{name} must return (state, [(topic, key, value), ...]), not {state_and_outputs!r}"
                )
            self._states[state_key], result = state_and_outputs
            if self._partitions.setdefault(state_key, record.partition) != record.partition:
                raise UserError(
                    f"{name}: records of the key {record.key!r} are in several partitions of {record.topic}, so the "
                    "order in which to fold them is not known: give the topic one partition"
                )
        if not isinstance(result, list | tuple):
            raise UserError(f"{name} must return a list of (topic, key, value), not {type(result).__name__}")
        expected_records = (_as_expected_record(name, one) for one in result)
        return [(name_in_run(self._described, topic), key, value) for topic, key, value in expected_records]

    def expected_sums(self, record: InputRecord) -> Iterator[ExpectedSum]:
        """Yield what an input adds to sums. Raises `UserError`.

        In a `final` topic only the last record of a key is checked. Its digest is treated as a sum: each input
        adds the difference between its digest and the one before.
        """
        last = {(topic, key): value for topic, key, value in self.expected_of(record) if topic in self.final}
        for (topic, key), value in last.items():
            name, source = name_in_file(self._described, topic), (record.topic, record.partition)
            if key is None:
                raise UserError(
                    f"`final` has {name}, in which {value!r} has no key: the last record of a key is not known"
                )
            before, previous_source = self._last.get((topic, key), (0, source))
            if previous_source != source:
                raise UserError(
                    f"`final` has {name}, in which the key {key!r} comes from inputs in {_named(previous_source)} and "
                    f"in {_named(source)}: which is last is not known, so give the input topic one partition"
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
        """Return the digest; 0 for a null value, which deletes the key."""
        return 0 if value is None else self._correlation.digest(key, value)

    def correlation_key(self, record: InputRecord) -> CorrelationKey | None:
        """Return the correlation key of an output; None in a `final` topic, where only the record key counts."""
        if record.topic in self.final:
            return None
        return CorrelationKey(
            self._correlation.of_output(record), self._correlation.digest(record.key, record.value)
        )

    def _stage_of(self, read: str, written: str) -> str:
        for stage in self._described.stages:
            if read in stage.reads and written in stage.writes:
                return stage.name
        raise UserError(
            f"{self.expect.outputs or self.expect.fold} expects outputs in {written} from inputs in {read}, but no "
            f"[[stage]] that reads {read} writes {written}"
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


def _named(topic_partition: tuple[str, int]) -> str:
    return f"{topic_partition[0]}/{topic_partition[1]}"


def _constant_digest(digest: int, partition: int, offset: int) -> int:
    """Return the digest, which does not depend on the position of the input."""
    return digest


def _as_expected_record(name: str, value_tuple: object) -> ExpectedRecord:
    if (
        not isinstance(value_tuple, tuple | list)
        or len(value_tuple) != 3
        or not isinstance(value_tuple[0], str)
    ):
        raise UserError(f"{name} must return (topic, key, value), not {value_tuple!r}")
    topic, key, value = value_tuple
    return topic, as_bytes(key, f"{name}: the key"), as_bytes(value, f"{name}: the value")
