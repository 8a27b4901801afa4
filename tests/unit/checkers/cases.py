"""A case: a small history, and the expected result of its checks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path

from checkers.checking.stored_runs import StoredRun
from checkers.stored.sources import Growth
from harness.model.vocabulary import SENTINEL_VALUE
from harness.results.verdict import CheckResult
from tests.planted import counted
from tests.support.findings import objects_without_kind
from tests.support.histories import History
from tests.support.stored_tables import write_store
from tests.support.within import is_part_of

WARNINGS = ("contended-id", "undue-fencing", "stalled")
"""Anomalies that never decide a verdict."""


@dataclass(frozen=True, eq=False)
class Case:
    """A history and the expected result of its checks.

    `finds` has every anomaly with its count, and `broken` a part of every sentence. `because` and `not_checked` may be
    incomplete. `examples` has the facts that the first example of an anomaly must hold. The counts of the coverage and
    the other checks that are not made follow from the history.
    """

    name: str
    draw: Callable[[History], None]
    finds: Mapping[str, int]
    because: Mapping[str, str | None] = field(default_factory=dict)
    broken: tuple[str, ...] = ()
    not_checked: tuple[str, ...] = ()
    unsettled: int = 0
    options: Mapping[str, object] = field(default_factory=dict)
    undecided: Mapping[str, Mapping[str, int]] | None = None  # None: not compared
    examples: Mapping[str, object] = field(default_factory=dict)

    @cached_property
    def history(self) -> History:
        history = History(**self.options)  # type: ignore[arg-type]
        self.draw(history)
        return history

    def alone(self, folder: Path, run: StoredRun) -> StoredRun:
        """Return the run of this case, stored in a folder of its own."""
        write_store(folder, [(run.run, self.history)], log=self.history.log)
        return replace(run, folder=folder)

    def differs(self, result: CheckResult) -> str | None:
        """Return the first difference between the result and the expected result, or None."""
        difference = (
            self._found(result)
            or self._broken(result)
            or self._indeterminate(result)
            or counted.differs(self.history, result, log=self.history.log)
            or self._undecided(result)
            or self._examples(result)
        )
        return f"{self.name}: {difference}" if difference else None

    def _found(self, result: CheckResult) -> str | None:
        found = {name: anomaly.count for name, anomaly in result.anomalies.items()}
        if found != dict(self.finds):
            return f"{found} is found, not {dict(self.finds)} ({result.broken})"
        allowed = {name for name, anomaly in result.anomalies.items() if anomaly.allowed}
        if allowed != found.keys() & {*WARNINGS, *self.history.allowed, *self.history.permitted}:
            return f"{sorted(allowed)} is allowed"
        for name, cause in self.because.items():
            actual = result.anomalies[name].because
            if actual != cause:
                return f"{name} follows from {actual}, not from {cause}"
        return None

    def _broken(self, result: CheckResult) -> str | None:
        sentences = [reason.text for reason in result.broken.values()]
        for part in self.broken:
            if not any(part in sentence for sentence in sentences):
                return f"no sentence contains {part!r}: {'; '.join(sentences)}"
        unexpected = (sentence for sentence in sentences if not any(part in sentence for part in self.broken))
        return next(unexpected, None)

    def _indeterminate(self, result: CheckResult) -> str | None:
        if result.unsettled.count != self.unsettled:
            return f"{result.unsettled} is indeterminate, not {self.unsettled}"
        unexplained = set(self.not_checked) - set(result.not_checked)
        return f"{unexplained} is not listed as not checked" if unexplained else None

    def _undecided(self, result: CheckResult) -> str | None:
        """Compare by check: how many rows are not decided, by a part of the reason."""
        if self.undecided is None:
            return None
        rows = list(result.not_decided)
        wanted = [
            (check, part, count) for check, by_why in self.undecided.items() for part, count in by_why.items()
        ]
        for check, part, count in wanted:
            if not any(row.check == check and part in row.why and row.count == count for row in rows):
                return f"{check} is not undecided {count} times because {part!r}: {rows}"
        return None if len(rows) == len(wanted) else f"not decided: {rows}"

    def _examples(self, result: CheckResult) -> str | None:
        for name, wanted in self.examples.items():
            first = result.anomalies[name].examples[0].as_json()
            if not is_part_of(wanted, first):
                return f"the example of {name} holds {first}"
        for name, anomaly in result.anomalies.items():
            for example in anomaly.examples:
                if keys := objects_without_kind(example):
                    return f"KINDS does not say what the keys {keys} of the example of {name} hold"
        return None


CASES: list[Case] = []


def plain(history: History) -> None:
    """Add an input, and a transaction that processes it."""
    history.feed(1)
    history.transact(0)


def case(
    *,
    because: Mapping[str, str | None] | None = None,
    broken: tuple[str, ...] = (),
    not_checked: tuple[str, ...] = (),
    unsettled: int = 0,
    options: Mapping[str, object] | None = None,
    examples: Mapping[str, object] | None = None,
    undecided: Mapping[str, Mapping[str, int]] | None = None,
    **finds: int,
) -> Callable[[Callable[[History], None]], Callable[[History], None]]:
    """Register a case; `lost_write=1` means that exactly one lost-write is found."""

    def register(draw: Callable[[History], None]) -> Callable[[History], None]:
        named = {name.replace("_", "-"): count for name, count in finds.items()}
        expected = because or {}, broken, not_checked, unsettled, options or {}, undecided, examples or {}
        CASES.append(Case(draw.__name__, draw, named, *expected))
        return draw

    return register


def without_sentinels(history: History) -> None:
    """Remove the sentinels: no final reader received one or expected one."""
    history.alter("records", lambda row: None if row["sentinel"] else row)
    history.alter("polls", lambda row: None if row["value"] == SENTINEL_VALUE else row)
    history.alter("ends", lambda row: row | {"sentinel_offset": None})


def all_cases() -> list[Case]:
    """Return the cases of all files `case_*.py` in this folder."""
    for file in sorted(Path(__file__).parent.glob("case_*.py")):
        import_module(file.stem)
    return CASES


def store(folder: Path, cases: Sequence[Case] | None = None, first: int = 0) -> list[StoredRun]:
    """Write a store of these cases, or of all, as runs numbered from `first`."""
    wanted = all_cases() if cases is None else cases
    histories = [(run, case.history) for run, case in enumerate(wanted, first)]
    for log in (True, False):
        write_store(folder / f"log-{log}", [(run, h) for run, h in histories if h.log is log], log=log)
    return [
        StoredRun(
            run,
            folder / f"log-{h.log}",
            h.wall_ms,
            allowed=dict.fromkeys(h.allowed, "the workload"),
            incomplete=h.incomplete,
            healed=h.healed,
            growths={topic: Growth(1, times) for topic, times in h.growths.items()},
            passed_over=h.passed_over,
            had_log=h.had_log,
            promises=h.promises,
            clock_drift_ms=h.clock_drift_ms,
            broken_premises=h.broken_premises,
            drained=h.drained,
        )
        for run, h in histories
    ]
