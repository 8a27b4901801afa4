"""What a user's inputs must lead to, by the user's own functions: asked in the final readers alone."""

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

Made = tuple[str, bytes | None, bytes | None]
"""Topic, key, value."""


class CustomExpectation:
    """By `outputs`, or by `fold`, which is given what it made of the key before. Inputs must come in their order."""

    def __init__(self, described: PipelineDescription, expect: ExpectedOutputs) -> None:
        self._described, self.expect = described, expect
        self._correlation = Correlation(expect, partial(name_in_file, described))
        self._written = {topic for stage in described.stages for topic in stage.writes}
        self.final = {name_in_run(described, topic) for topic in expect.final}
        self._last: dict[tuple[str, bytes], tuple[int, tuple[str, int]]] = {}
        self._asked: tuple[InputRecord | None, Sequence[Made]] = (None, ())
        self._states: dict[tuple[str, bytes | None], Any] = {}
        self._places: dict[tuple[str, bytes | None], int] = {}

    def due(self, record: InputRecord) -> Iterator[ExpectedOutput]:
        """The outputs that it must lead to. Raises `UserError`."""
        made = [one for one in self.expected_of(record) if one[0] not in self.final]
        correlation_key, many = self._correlation.of_input(record) if made else None, Counter[str]()
        for topic, key, value in made:
            many[topic] += 1
            digest = self._correlation.digest(key, value)
            yield ExpectedOutput(
                stage=self._stage_of(record.topic, topic),
                output_name=topic if many[topic] == 1 else f"{topic}#{many[topic]}",
                topic=topic,
                digest=partial(_held, digest),
                correlation_key=correlation_key
                if correlation_key is not None
                else self._correlation.content(key, value),
                content=excerpt(key, value),
            )

    def expected_of(self, record: InputRecord) -> Sequence[Made]:
        """What it must lead to, asked once of each input: whoever folds has a state. Raises `UserError`.

        What a program has written, and nothing joins to an input, must lead to nothing: nobody owed it either.
        """
        if self._asked[0] is not record:
            strange = record.topic in self._written and self._correlation.of_output(record) is None
            self._asked = (record, () if strange else self.made(record))
        return self._asked[1]

    def made(self, record: InputRecord) -> Sequence[Made]:
        """What the user's function makes of it."""
        if self.expect.outputs is not None:
            name = str(self.expect.outputs)
            topic = name_in_file(self._described, record.topic)
            given = call(self.expect.outputs, topic, record.key, record.value, dict(record.headers))
        else:
            assert self.expect.fold is not None
            name, place = str(self.expect.fold), (record.topic, record.key)
            topic = name_in_file(self._described, record.topic)
            told = call(self.expect.fold, self._states.get(place), topic, record.key, record.value)
            if not isinstance(told, tuple) or len(told) != 2:
                raise UserError(f"{name} must give (state, [(topic, key, value), ...]), not {told!r}")
            self._states[place], given = told
            if self._places.setdefault(place, record.partition) != record.partition:
                raise UserError(
                    f"{name}: records of the key {record.key!r} stand in several partitions of {record.topic}, so that "
                    "nobody knows in which order they are folded, unless it has one partition"
                )
        if not isinstance(given, list | tuple):
            raise UserError(f"{name} must give a list of (topic, key, value), not {type(given).__name__}")
        made = (_made(name, one) for one in given)
        return [(name_in_run(self._described, topic), key, value) for topic, key, value in made]

    def adds(self, record: InputRecord) -> Iterator[ExpectedSum]:
        """Where the last record of a key is judged: the digest that it then must have, by what it differs from the one
        before it. All of them add up to the last. Raises `UserError`.
        """
        last = {(topic, key): value for topic, key, value in self.expected_of(record) if topic in self.final}
        for (topic, key), value in last.items():
            name, place = name_in_file(self._described, topic), (record.topic, record.partition)
            if key is None:
                raise UserError(
                    f"`final` has {name}, in which {value!r} has no key: nobody knows what comes last"
                )
            before, whose = self._last.get((topic, key), (0, place))
            if whose != place:
                raise UserError(
                    f"`final` has {name}, in which the key {key!r} comes of inputs in {_named(whose)} and in "
                    f"{_named(place)}: nobody knows which of them comes last, unless that topic has one partition"
                )
            digest = self._of_last(key, value)
            self._last[topic, key] = digest, place
            yield ExpectedSum(
                self._stage_of(record.topic, topic), topic, key, digest - before, excerpt(key, value)
            )

    def state(self, record: InputRecord) -> int | None:
        """The digest of a record in a topic of which the last record of each key is judged."""
        return self._of_last(record.key, record.value) if record.topic in self.final else None

    def _of_last(self, key: bytes | None, value: bytes | None) -> int:
        """A null value says that there is none: as if no record stood there."""
        return 0 if value is None else self._correlation.digest(key, value)

    def correlation_key(self, record: InputRecord) -> CorrelationKey | None:
        """What an output says of its input; nothing, where its key alone counts."""
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
            f"{self.expect.outputs or self.expect.fold} expects outputs in {written} of inputs in {read}, and no "
            "[[stage]] that reads the one writes the other"
        )


class NothingExpected:
    """Where the user says nothing of what must come of inputs."""

    def due(self, record: InputRecord) -> tuple[ExpectedOutput, ...]:
        """Nothing."""
        return ()

    def adds(self, record: InputRecord) -> tuple[ExpectedSum, ...]:
        """Nothing."""
        return ()

    def state(self, record: InputRecord) -> None:
        """None."""

    def correlation_key(self, record: InputRecord) -> None:
        """Nothing."""


def _named(place: tuple[str, int]) -> str:
    return f"{place[0]}/{place[1]}"


def _held(digest: int, partition: int, offset: int) -> int:
    """What an output must hold, wherever its input stands."""
    return digest


def _made(name: str, one: object) -> Made:
    if not isinstance(one, tuple | list) or len(one) != 3 or not isinstance(one[0], str):
        raise UserError(f"{name} must give (topic, key, value), not {one!r}")
    topic, key, value = one
    return topic, as_bytes(key, f"{name}: the key"), as_bytes(value, f"{name}: the value")
