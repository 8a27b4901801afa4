"""Which rules find anything, and which checkers have anything to look at: asked in the pass that counts the facts.

In most runs hardly any rule and few suspects hold for any row. So the conditions alone are asked first, of all tables
in two queries (of those that are there first, and of the others); only what they point at is asked for findings.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from checkers.checker import Checker
from checkers.judging.facts import counted
from checkers.spark.errors import SPARK_ERRORS, has_ended
from checkers.stored.tables import Tables
from checkers.stored.tally import Counted, Tally, tally

log = logging.getLogger(__name__)

RULES = "a rule holds"
"""The name under which the rows are counted for which one does."""
SUSPECT_OF = "suspect of "
"""Begins the name under which those of a checker are counted: no fact's name does."""


@dataclass(frozen=True)
class Hints:
    """What is to be asked. None: everything."""

    tables: frozenset[str] | None = None  # in which a rule holds for a row
    modules: frozenset[str] | None = None  # of the checkers of which a suspect is there

    def rules(self, table: str) -> bool:
        """Whether the rules over a table find anything."""
        return self.tables is None or table in self.tables

    def look(self, checker: Checker) -> bool:
        """Whether a checker that has suspects can find anything."""
        return self.modules is None or checker.module in self.modules


EVERYTHING, NOTHING = Hints(), Hints(frozenset(), frozenset())
SOONER = ("batches", "states", "positions", "values", "operations")
"""The tables that are there first: they are asked while the others are still being made."""
LATER = ("deliveries", "inputs", "moves", "ranges", "spans")
"""Those that are there last; of any other table a condition is asked with them."""


def count(
    t: Tables, checkers: Sequence[Checker], sooner: Callable[[Hints], None] = lambda hints: None
) -> tuple[Tally, Hints]:
    """Count the facts, and see what the checkers have to look at; `sooner` is told what is known of that when the first
    of the tables are counted. If one of their conditions crashes, everything is asked, so that the crash is told as
    that checker's.
    """
    wanted = _conditions(t, checkers)
    try:
        first = _tallied(t, SOONER, wanted)
        sooner(_hints(first, wanted))
        counts = first | _tallied(t, _later(wanted), wanted)
    except SPARK_ERRORS as error:
        if has_ended():
            raise
        t.wait()  # a table that could not be made is no condition that crashed
        log.warning("a condition crashed: every checker is asked", exc_info=error)
        return _tallied(t, SOONER, {}) | _tallied(t, LATER, {}), EVERYTHING
    return counts, _hints(counts, wanted)


def _hints(counts: Tally, wanted: Mapping[str, Mapping[str, str]]) -> Hints:
    """What the counts so far say."""
    return Hints(
        tables=frozenset(table for table in wanted if counts.there(table, RULES)),
        modules=frozenset(
            name.removeprefix(SUSPECT_OF)
            for table, of in wanted.items()
            for name in of
            if name != RULES and counts.there(table, name)
        ),
    )


def _later(wanted: Iterable[str]) -> Sequence[str]:
    return (*LATER, *sorted({*wanted} - {*SOONER, *LATER}))


def _tallied(t: Tables, tables: Sequence[str], wanted: Mapping[str, Mapping[str, str]]) -> Tally:
    """Of these tables the facts, and of how many rows the wanted conditions hold."""
    parts = (_asked(t, table, wanted) for table in tables)
    return tally([one for one in parts if one is not None])


def _asked(t: Tables, table: str, wanted: Mapping[str, Mapping[str, str]]) -> Counted | None:
    """What is asked of one table; None: nothing."""
    facts, more = counted(t, table), wanted.get(table, {})
    if facts is not None:
        return replace(facts, conditions={**facts.conditions, **more})
    frame = getattr(t, table) if more else None
    return Counted(table, frame, more) if frame is not None else None


def _conditions(t: Tables, checkers: Sequence[Checker]) -> dict[str, dict[str, str]]:
    """By table and name: whether any rule holds for a row of it, and whether it is a suspect of a checker."""
    holds: dict[str, list[str]] = defaultdict(list)
    suspects: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for checker in checkers:
        for rule in checker.rules(t):
            holds[rule.table].append(rule.holds)
        for suspect in checker.suspects(t):
            suspects[suspect.table][checker.module].append(f"({suspect.where})")
    return {
        table: {
            **({RULES: " or ".join(holds[table])} if table in holds else {}),
            **{SUSPECT_OF + module: " or ".join(of) for module, of in suspects[table].items()},
        }
        for table in {*holds, *suspects}
    }
