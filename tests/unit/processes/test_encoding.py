"""Messages between processes are decoded strictly."""

import json
import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

from harness.model.vocabulary import Isolation, Role
from harness.processes.messages import Command, Counts, DecodeError, ProcessMessage, Report, decode, encode
from harness.processes.specs import (
    ClientSpec,
    CustomPipelineSpec,
    FeederSpec,
    FinalReaderSpec,
    JvmSpec,
    ObserverSpec,
    ProcessSpec,
    RunSpec,
    TableReaderSpec,
    TaskSpec,
    WorkloadSpec,
)
from tests.support.specs import process_spec, run_spec, worker_spec, workload_spec

TASKS: list[TaskSpec] = [
    worker_spec(group="g", transactional_id="t"),
    worker_spec(),
    FeederSpec(2.5),
    ObserverSpec((("in", 0), ("out", 1))),
    FinalReaderSpec(Isolation.READ_COMMITTED, (("in", 0),), (7,)),
    FinalReaderSpec(Isolation.READ_UNCOMMITTED, (("in", 0),), None),
    TableReaderSpec(("orders",)),
]
PIPELINES = [
    workload_spec(),
    workload_spec(
        ClientSpec("java", "3.9.1", JvmSpec(Path("/j.so"), (Path("/a.jar"),), Path("/f"), ("-X",)))
    ),
    CustomPipelineSpec(Path("/p/pipeline.toml"), "run-7"),
]


class Colour(StrEnum):
    RED = "red"


class Inner(ProcessMessage, frozen=True, tag_field="kind", tag="inner"):
    number: int


class Other(ProcessMessage, frozen=True, tag_field="kind", tag="other"):
    number: int


class Outer(ProcessMessage, frozen=True):
    member: Inner | Other
    by_number: Mapping[int, tuple[str, int]] = {}
    many: tuple[Inner, ...] = ()
    share: float = 0.0
    colour: Colour | None = None
    path: Path = Path("/")
    flag: bool = False


@pytest.mark.parametrize("task", TASKS, ids=lambda task: type(task).__name__)
def test_the_spec_of_a_process_survives_encoding(task: TaskSpec, tmp_path: Path) -> None:
    spec = process_spec(tmp_path, task, control_fd=3)
    assert decode(ProcessSpec, encode(spec)) == spec
    assert isinstance(spec.role, Role)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_the_spec_of_a_run_survives_encoding(pipeline: WorkloadSpec | CustomPipelineSpec) -> None:
    assert decode(RunSpec, encode(run_spec(pipeline))) == run_spec(pipeline)


@pytest.mark.parametrize(
    "message",
    [
        Command(arm="after-send", intended_end="commit"),
        Command(stop=True, go=True),
        Report(ready=True),
        Report(step="after-send", claims={"a/0": (1, 2)}, counts=Counts(inputs=3, fenced=1)),
        Report(slow_call_since_ns=0),
    ],
)
def test_a_message_of_the_control_line_survives_encoding(message: Command | Report) -> None:
    line = message.line()
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert type(message).parse(line) == message


def test_every_type_of_a_field_survives_encoding() -> None:
    outer = Outer(Other(1), {4: ("a", 1)}, (Inner(2),), 0.5, Colour.RED, Path("/x"), True)
    assert decode(Outer, encode(outer)) == outer
    assert decode(Outer, b'{"member": {"number": 1, "kind": "inner"}, "share": 1}') == Outer(
        Inner(1), share=1.0
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"member": None}, "$.member"),
        ({"member": {"kind": "inner"}}, "missing required field `number` - at `$.member`"),
        ({"member": {"number": 1}}, "missing required field `kind` - at `$.member`"),
        ({"member": {"number": 1, "kind": "third"}}, "Invalid value 'third' - at `$.member.kind`"),
        ({"member": {"number": True, "kind": "inner"}}, "Expected `int`, got `bool` - at `$.member.number`"),
        ({"member": {"number": 1, "kind": "inner", "more": 1}}, "unknown field `more` - at `$.member`"),
        ({"by_number": {"x": ["a", 1]}}, "Expected `int`, got `str` - at `key` in `$.by_number`"),
        ({"by_number": {"1": ["a"]}}, "$.by_number[...]"),
        ({"many": {}}, "$.many"),
        ({"share": "1"}, "$.share"),
        ({"share": True}, "$.share"),
        ({"colour": "blue"}, "$.colour"),
        ({"path": 3}, "$.path"),
        ({"flag": 1}, "$.flag"),
        ({"unknown": 1}, "unknown field `unknown`"),
    ],
)
def test_the_error_for_a_wrong_value_names_its_field(change: dict[str, Any], words: str) -> None:
    body = json.loads(encode(Outer(Inner(1))))
    with pytest.raises(DecodeError, match=f"^not a Outer: .*{re.escape(words)}"):
        decode(Outer, json.dumps({**body, **change}))


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "null"])
def test_a_text_that_is_no_json_object_is_refused(text: str) -> None:
    with pytest.raises(DecodeError, match="Outer"):
        decode(Outer, text)
