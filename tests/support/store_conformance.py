"""What every kind of store must do, asked through the interface alone."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from harness.databases.interface import Database, PositionConflict, SideEffect

PLACE = ("in", 0)


def effect(n: int, content: bytes | None = b"v", table: str = "applied") -> SideEffect:
    return SideEffect(table, f"w:{n}:0", "applied", f"in/0/{n}", b"k", content)


def check_store(connect: Callable[[], Database]) -> None:
    """Each check uses tables, groups and keys of its own."""
    for check in (
        check_effects_and_position_stand_together,
        check_who_was_overtaken_does_nothing,
        check_changes_are_counted_by_key,
        check_an_effect_that_is_done_once_is_there_once,
        check_what_was_rolled_back_is_not_there,
    ):
        check(connect(), connect())


def check_effects_and_position_stand_together(one: Database, other: Database) -> None:
    with one.transaction() as work:
        work.add(effect(0))
        work.add(effect(1, None))
        work.advance("g", PLACE, None, 2)
    told = [(number, found) for number, found in other.effects("applied")]
    assert told == [(0, effect(0)), (1, effect(1, None))]
    assert other.position("g", PLACE) == 2 and other.position("h", PLACE) is None


def check_who_was_overtaken_does_nothing(one: Database, other: Database) -> None:
    with one.transaction() as work:
        work.advance("overtaken", PLACE, None, 1)
    for known in (None, 0, 2):
        with (
            pytest.raises(PositionConflict, match="another process has moved the position"),
            other.transaction() as work,
        ):
            work.add(effect(0, table="overtaken"))
            work.change("overtaken", b"k", None)
            work.advance("overtaken", PLACE, known, 2)
    assert not list(one.effects("overtaken")) and not list(one.states("overtaken"))
    assert one.position("overtaken", PLACE) == 1


def check_changes_are_counted_by_key(one: Database, other: Database) -> None:
    for store, content in ((one, b"one"), (other, None), (one, b"")):
        with store.transaction() as work:
            work.change("users", b"\x00k", content)
    ((_, state),) = other.states("users")
    assert (state.key, state.content, state.changes) == (b"\x00k", b"", 3)


def check_an_effect_that_is_done_once_is_there_once(one: Database, other: Database) -> None:
    done = []
    first = effect(7, table="once")
    for store, one_effect in (
        (one, first),
        (other, first),
        (one, effect(7, table="other")),
        (one, replace(first, output_name="second")),
        (other, replace(first, output_name="second")),
    ):
        with store.transaction() as work:
            done.append(work.add_once(one_effect))
    assert done == [True, False, True, True, False]
    assert [found.output_name for _, found in other.effects("once")] == [first.output_name, "second"]


def check_what_was_rolled_back_is_not_there(one: Database, other: Database) -> None:
    class Mistake(Exception):
        pass

    with pytest.raises(Mistake), one.transaction() as work:
        work.add(effect(0, table="undone"))
        raise Mistake
    with one.transaction() as work:
        work.add(effect(1, table="undone"))
    assert [found.value for _, found in other.effects("undone")] == ["w:1:0"]
