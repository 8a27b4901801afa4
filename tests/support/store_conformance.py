"""The conformance suite of databases: it uses only the interface `Database`."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from harness.databases.interface import Database, PositionConflict, SideEffect

PARTITION = ("in", 0)


def effect(n: int, content: bytes | None = b"v", table: str = "applied") -> SideEffect:
    return SideEffect(table, f"w:{n}:0", "applied", f"in/0/{n}", b"k", content)


def check_store(connect: Callable[[], Database]) -> None:
    """Run every check with two connections. No two checks share a table, a group or a key."""
    for check in (
        check_effects_and_position_commit_together,
        check_an_overtaken_process_changes_nothing,
        check_changes_are_counted_per_key,
        check_add_once_adds_an_effect_once,
        check_a_rollback_leaves_no_effect,
    ):
        check(connect(), connect())


def check_effects_and_position_commit_together(first: Database, second: Database) -> None:
    with first.transaction() as work:
        work.add(effect(0))
        work.add(effect(1, None))
        work.advance("g", PARTITION, None, 2)
    assert list(second.effects("applied")) == [(0, effect(0)), (1, effect(1, None))]
    assert second.position("g", PARTITION) == 2 and second.position("h", PARTITION) is None


def check_an_overtaken_process_changes_nothing(first: Database, second: Database) -> None:
    with first.transaction() as work:
        work.advance("overtaken", PARTITION, None, 1)
    for known in (None, 0, 2):
        with (
            pytest.raises(PositionConflict, match="another process has moved the position"),
            second.transaction() as work,
        ):
            work.add(effect(0, table="overtaken"))
            work.change("overtaken", b"k", None)
            work.advance("overtaken", PARTITION, known, 2)
    assert not list(first.effects("overtaken")) and not list(first.states("overtaken"))
    assert first.position("overtaken", PARTITION) == 1


def check_changes_are_counted_per_key(first: Database, second: Database) -> None:
    for store, content in ((first, b"one"), (second, None), (first, b"")):
        with store.transaction() as work:
            work.change("users", b"\x00k", content)
    ((_, state),) = second.states("users")
    assert (state.key, state.content, state.changes) == (b"\x00k", b"", 3)


def check_add_once_adds_an_effect_once(first: Database, second: Database) -> None:
    added = []
    once = effect(7, table="once")
    for store, one_effect in (
        (first, once),
        (second, once),
        (first, effect(7, table="other")),
        (first, replace(once, output_name="second")),
        (second, replace(once, output_name="second")),
    ):
        with store.transaction() as work:
            added.append(work.add_once(one_effect))
    assert added == [True, False, True, True, False]
    assert [stored.output_name for _, stored in second.effects("once")] == [once.output_name, "second"]


def check_a_rollback_leaves_no_effect(first: Database, second: Database) -> None:
    class Mistake(Exception):
        pass

    with pytest.raises(Mistake), first.transaction() as work:
        work.add(effect(0, table="undone"))
        raise Mistake
    with first.transaction() as work:
        work.add(effect(1, table="undone"))
    assert [stored.value for _, stored in second.effects("undone")] == ["w:1:0"]
