"""Stored runs: the cases of the unit tests, small and larger ones of all families, and runs with plants.

Of a changed file only what depends on it is made and judged anew: the shared tables that its functions make,
or that are made of such ones, and the checkers that look at one of them.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, fields, replace
from functools import partial, wraps
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession

if TYPE_CHECKING:
    from cases import Case

    from checkers.checker import Checker
    from checkers.findings.form import Finding
    from checkers.judging.gathered import Fact
    from checkers.judging.run_checks import Collected, Materialised
    from checkers.stored.sources import Sources, StoredRun
    from checkers.stored.tables import Tables
    from harness.verdict import Judgement
    from tests.planted.families import Small
    from tests.planted.plants import PlantedRun

LARGER, PLANTED = range(20), range(100)
"""Seeds."""
FEW = 4
"""Checkers that are asked together, those first that see most."""
EXAMPLES = 20
"""As many as are looked for in a run with plants."""
WHOLE = (
    "checkers/stored/tables.py",
    "checkers/judging/run_checks.py",
    "checkers/judging/ranking.py",
    "checkers/judging/explain.py",
)
"""What everything depends on."""
FACTS, OF_FACTS = "facts", ("checkers/judging/facts.py",)
"""What is gathered of each run, and the file that says what."""
RULES = ("checkers/findings/rules.py", "checkers/findings/build.py")
"""What every rule depends on."""


@dataclass(frozen=True)
class Kept:
    """What the checkers made and said before anything was changed."""

    sources: Sources
    tables: Tables
    brought: Materialised
    looks: Mapping[str, Set[str]]  # by module of the checkers: the tables that it looks at


class Stored:
    """Judges all of them by the checkers as they are imported now, the cases first: most are enough."""

    def __init__(self, spark: SparkSession) -> None:
        import cases

        from tests.planted import families, plants

        self.spark = spark
        self._folder = TemporaryDirectory(prefix="fencepost-mutants-")
        folder = Path(self._folder.name)
        drawn = [*families.smalls(), *families.larger(LARGER)]
        planted = plants.runs_with_plants(PLANTED)
        runs = families.store(drawn, folder / "families")
        runs += plants.store(planted, folder / "planted", len(runs))
        self._parts = [
            Part(spark, cases.store(folder / "cases"), cases.CASES),
            Part(spark, runs, [*drawn, *planted]),
        ]

    def differs(self, file: str | None) -> str | None:
        """The first history of which they say something else than they must."""
        differences = (part.differs(file) for part in self._parts)
        return next((difference for difference in differences if difference), None)


class Part:
    """Some runs, and what must be found in them; with what was made and said of them before a change."""

    def __init__(
        self, spark: SparkSession, runs: Sequence[StoredRun], wanted: Sequence[Case | Small | PlantedRun]
    ) -> None:
        self._spark = spark
        self._runs, self._wanted = runs, wanted
        self._kept: Kept | None = None
        self._catches: Counter[str] = Counter()  # by module of the checkers, how often it has shown a change

    def differs(self, file: str | None) -> str | None:
        """The first of which they say something else than they must."""
        if file is None or file in WHOLE or self._kept is None:
            said = iter([self._judge_all(keep=file is None)])
        else:
            said = self._judge_again(file, self._kept)
        for judgements in said:
            for one, judgement in zip(self._wanted, judgements, strict=True):
                if difference := one.differs(judgement):
                    return difference
        return None

    def _judge_all(self, *, keep: bool) -> list[Judgement]:
        from checkers.judging import stored_runs as judge
        from checkers.judging.run_checks import materialise
        from checkers.registry import STORE_CHECKERS, UNSETTLED
        from checkers.stored.sources import read_sources
        from checkers.stored.tables import make_tables

        sources = read_sources(self._spark, self._runs)
        tables = make_tables(sources)
        brought = materialise(sources, tables, (*STORE_CHECKERS, UNSETTLED), EXAMPLES)
        if keep:
            looks = {c.module: _looked_at(partial(_look, c), tables) for c in (*STORE_CHECKERS, UNSETTLED)}
            looks[FACTS] = _looked_at(partial(_facts, sources), tables)
            self._kept = Kept(sources, tables, brought, looks)
        return [judge._judgement(run, brought, EXAMPLES) for run in self._runs]

    def _judge_again(self, file: str, kept: Kept) -> Iterator[list[Judgement]]:
        """After each few of the checkers, the others saying what they said; and then after all of them."""
        from checkers.judging.run_checks import collect, explain_all

        tables, anew = _remade(file, kept)
        asked = _asked(file, kept, anew)
        facts = kept.brought.facts
        if _depends(_facts, file) or file in OF_FACTS or anew & kept.looks[FACTS]:
            facts = _facts(kept.sources, tables)
        asked.sort(key=lambda checker: -self._catches[checker.module])
        for first in range(0, len(asked), FEW) if len(asked) > FEW else ():
            some = asked[first : first + FEW]
            found = collect(tables, some, EXAMPLES)
            catches = [checker.module for checker in some if _otherwise(checker, found, kept)]
            if catches:
                self._catches.update(catches)
                explain_all(kept.sources, tables, some, found, facts)
                yield self._said(_replaced(some, found, facts, kept))
        found = collect(tables, asked, EXAMPLES)
        explain_all(kept.sources, tables, asked, found, facts)
        yield self._said(_replaced(asked, found, facts, kept))

    def _said(self, brought: Materialised) -> list[Judgement]:
        from checkers.judging import stored_runs as judge

        return [judge._judgement(run, brought, EXAMPLES) for run in self._runs]


def _otherwise(checker: Checker, found: Collected, kept: Kept) -> bool:
    """A checker finds more or less than it did, or crashes."""

    def counts(findings: Mapping[tuple[int, str, bool], Finding]) -> dict[tuple[int, str, bool], int]:
        return {key: row.count for key, row in findings.items() if key[1] in checker.anomalies}

    return bool(found.crashed) or counts(found.rows) != counts(kept.brought.findings)


def _replaced(
    asked: Sequence[Checker], found: Collected, facts: dict[int, list[Fact]], kept: Kept
) -> Materialised:
    """What was brought, with these checkers' findings instead of what they had found."""
    names = {name for checker in asked for name in checker.anomalies}
    others = {key: row for key, row in kept.brought.findings.items() if key[1] not in names}
    causes = {one for one in kept.brought.caused if not names.issuperset(one[1:])}
    return replace(
        kept.brought,
        findings=others | found.rows,
        facts=facts,
        crashed=found.crashed,
        caused=causes | found.caused,
    )


def _remade(file: str, kept: Kept) -> tuple[Tables, frozenset[str]]:
    """The shared tables, and the names of those that are not the kept ones."""
    from checkers.stored import tables as shared
    from checkers.stored.small import Small

    known = {id(getattr(kept.tables, field.name)): field.name for field in fields(kept.tables)}
    anew: set[str] = set()

    def unless_known(keep: Callable[[DataFrame], DataFrame]) -> Callable[[DataFrame], DataFrame]:
        return lambda frame: frame if id(frame) in known else keep(frame)

    def as_before(make: Callable[..., DataFrame], args: Sequence[Any]) -> bool:
        others = any(isinstance(one, DataFrame) and id(one) not in known for one in args)
        return not others and not _depends(make, file)

    def remaking(name: str, make: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
        @wraps(make)
        def remake(*args: Any) -> DataFrame:
            if as_before(make, args):
                kept_one: DataFrame = getattr(kept.tables, name)
                return kept_one
            anew.add(name)
            return make(*args)

        return remake

    parts_as_before: list[DataFrame] = []

    def remaking_part(make: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
        """Of a table that is a part of another one alone: nothing computes it unless that one is made anew."""

        @wraps(make)
        def remake(*args: Any) -> DataFrame:
            frame = make(*args)
            if as_before(make, args):
                parts_as_before.append(frame)
                known[id(frame)] = make.__name__
            return frame

        return remake

    names = {field.name for field in fields(kept.tables)}
    for attribute, make in list(vars(shared).items()):
        name = attribute.removeprefix("make_").removeprefix("_")
        if attribute != name and name in names:
            setattr(shared, attribute, remaking(name, make))
    for attribute in ("make_points", "make_suspected"):
        setattr(shared, attribute, remaking_part(getattr(shared, attribute)))
    for attribute in ("keep", "brought", "keep_or_bring"):
        setattr(shared, attribute, unless_known(getattr(shared, attribute)))
    parts = {one.name: getattr(kept.tables, one.name) for one in fields(Small)}
    made = shared.make_tables(kept.sources, small=Small(**parts))
    return made, frozenset(anew)


def _asked(file: str, kept: Kept, anew: frozenset[str]) -> list[Checker]:
    """The checkers that may say something else, and what follows from them, or from what they follow."""
    from checkers.registry import STORE_CHECKERS, UNSETTLED

    every = (*STORE_CHECKERS, UNSETTLED)

    def affected(checker: Checker) -> bool:
        module = f"checkers.anomalies.{checker.module}"
        function = vars(sys.modules[module]).get(checker.module)
        own = file == module.replace(".", "/") + ".py" or file in RULES
        return own or bool(function and _depends(function, file)) or bool(anew & kept.looks[checker.module])

    for checker in every:
        import_module(f"checkers.anomalies.{checker.module}")
    first = [checker for checker in every if affected(checker)]
    names = {name for checker in first for name in checker.anomalies}
    causes = {because.cause for checker in first for because in checker.because}
    return [
        checker
        for checker in every
        if names & {*checker.anomalies, *(because.cause for because in checker.because)}
        or causes & {*checker.anomalies}
    ]


def _facts(sources: Sources, tables: Tables) -> dict[int, list[Fact]]:
    """What is gathered of each run."""
    from checkers.judging.facts import told
    from checkers.judging.prefilter import count

    return told(sources, tables, count(tables, ())[0])


def _look(checker: Checker, tables: Tables) -> None:
    """Have it look at all that it looks at."""
    checker.look(tables)
    for rule in checker.rules(tables):
        getattr(tables, rule.table)


def _looked_at(look: Callable[[Any], object], tables: Tables) -> set[str]:
    """The tables that a function of them looks at."""
    seen: set[str] = set()

    class Watched:
        def __getattr__(self, name: str) -> Any:
            seen.add(name)
            return getattr(tables, name)

    look(Watched())
    return seen


def _depends(function: Callable[..., object], file: str) -> bool:
    """Whether a function, or one that it calls by name, stands in the file."""
    changed = file.removesuffix(".py").replace("/", ".")
    return any(one.__module__ == changed for one in _called(function, set()))


def _called(function: Any, seen: set[int]) -> Iterator[Any]:
    """The function and all of ours that it names, however deep."""
    function = getattr(function, "__wrapped__", function)
    if id(function) in seen:
        return
    seen.add(id(function))
    yield function
    if isinstance(function, FunctionType):
        for name in _named(function.__code__):
            one = function.__globals__.get(name)
            if str(getattr(one, "__module__", "")).startswith("checkers."):
                yield from _called(one, seen)


def _named(code: CodeType) -> Iterator[str]:
    """The names that a function's code, and the functions in it, may look up."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _named(constant)
