"""A mistake in a table of a user gets a sentence with the key, the value and what it must be."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta, Struct

from harness.common.toml_tables import Text, TextOrEmpty, WrongTable, convert_table, matches


class Color(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Table:
    name: Annotated[str, matches("[a-z]+", "small letters", example='"a"')]
    reads: Annotated[tuple[Text, ...], Meta(min_length=1, examples=['["in"]'])] = ("in",)
    count: Annotated[int, Meta(ge=1, le=16)] = 3
    share: Annotated[float, Meta(gt=0, le=1)] | None = None
    delay_s: Annotated[float, Meta(ge=0)] = 0.0
    works: bool = True
    kind: Literal["service", "job"] = "service"
    color: Color = Color.RED
    env: Mapping[str, TextOrEmpty] = field(default_factory=dict)


class Renamed(Struct, rename=lambda name: name.replace("_", ".")):
    release_after: Text = "x"


def test_a_right_table_is_converted() -> None:
    table = {"name": "a", "reads": ["x", "y"], "share": 1, "color": "blue", "env": {"A": ""}}
    assert convert_table(table, Table) == Table("a", ("x", "y"), share=1.0, color=Color.BLUE, env={"A": ""})
    assert convert_table({"release.after": "y"}, Renamed) == Renamed("y")


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"name": "A1"}, "name must be small letters, not 'A1'"),
        ({"name": 3}, "name must be a string, not 3"),
        ({"name": "a\n"}, "name must be small letters, not 'a\\n'"),
        ({"nam": "a"}, 'has an unknown key: there is no key "nam"; did you mean "name"?'),
        ({"reads": []}, 'reads must have at least one element, for example ["in"]'),
        ({"reads": "in"}, "reads must be a list of strings, not 'in'"),
        ({"reads": ["in", 3]}, "reads[1] must be a string, not 3"),
        ({"reads": ["a\0"]}, "reads[0] must be a string without a NUL character, not 'a\\x00'"),
        ({"count": 17}, "count must be a whole number from 1 to 16, not 17"),
        ({"count": 2**70}, f"count must be a whole number from 1 to 16, not {2**70}"),
        ({"count": True}, "count must be a whole number from 1 to 16, not True"),
        ({"share": 0}, "share must be a number above 0, and at most 1, not 0"),
        ({"share": float("nan")}, "share must be a number above 0, and at most 1, not nan"),
        ({"delay_s": -1}, "delay_s must be a number of at least 0, not -1"),
        ({"works": 1}, "works must be true or false, not 1"),
        ({"kind": "cron"}, "kind must be one of service, job, not 'cron'"),
        ({"color": "green"}, "color must be one of red, blue, not 'green'"),
        ({"env": ["A"]}, "env must be a table, not ['A']"),
        ({"env": {"A": [1]}}, "env.A must be a string, not [1]"),
    ],
)
def test_a_mistake_gets_one_sentence(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(WrongTable) as refused:
        convert_table({"name": "a", **wrong}, Table)
    assert str(refused.value) == sentence


def test_a_missing_key_is_shown_with_an_example() -> None:
    with pytest.raises(WrongTable) as refused:
        convert_table({}, Table)
    assert str(refused.value) == 'name is missing; write for example name = "a"'


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(WrongTable) as refused:
        convert_table(3, Table)
    assert str(refused.value) == "must be a table, not 3"


def test_a_key_with_another_name_in_the_file_is_named_as_in_the_file() -> None:
    with pytest.raises(WrongTable) as refused:
        convert_table({"release.after": 3}, Renamed)
    assert (refused.value.key, refused.value.problem) == ("release.after", "must be a string, not 3")
