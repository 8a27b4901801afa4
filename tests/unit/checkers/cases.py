"""A case: a history of a few lines, and what must be said of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path

from checkers.checking.stored_runs import StoredRun
from harness.model.vocabulary import SENTINEL_VALUE
from harness.results.verdict import CheckResult
from tests.planted import counted
from tests.support.histories import History
from tests.support.stored_tables import write
from tests.support.within import within

WARNINGS = ("contended-id", "undue-fencing", "stalled")
"""They decide nothing."""


@dataclass(frozen=True, eq=False)
class Case:
    """`finds`: every anomaly with its count, no more. `broken`: every sentence by a part of it, no more.
    `because`, `not_checked`: what must be among them. `tells`: by anomaly, what its first example must hold.
    The figures, and all that is not checked, follow from the history.
    """

    name: str
    draw: Callable[[History], None]
    finds: Mapping[str, int]
    because: Mapping[str, str | None] = field(default_factory=dict)
    broken: tuple[str, ...] = ()
    not_checked: tuple[str, ...] = ()
    unsettled: int = 0
    options: Mapping[str, object] = field(default_factory=dict)
    tells: Mapping[str, object] = field(default_factory=dict)

    @cached_property
    def history(self) -> History:
        """Drawn once."""
        history = History(**self.options)  # type: ignore[arg-type]
        self.draw(history)
        return history

    def alone(self, folder: Path, run: StoredRun) -> StoredRun:
        """The run of this case, in a store of its own."""
        write(folder, [(run.run, self.history)], log=self.history.log)
        return replace(run, folder=folder)

    def differs(self, judgement: CheckResult) -> str | None:
        """What is said of it otherwise than it should be."""
        said = (
            self._found(judgement)
            or self._broken(judgement)
            or self._unanswered(judgement)
            or counted.differs(self.history, judgement, log=self.history.log)
            or self._untold(judgement)
        )
        return f"{self.name}: {said}" if said else None

    def _found(self, judgement: CheckResult) -> str | None:
        """The anomalies, which of them are allowed, and from which they follow."""
        found = {name: anomaly.count for name, anomaly in judgement.anomalies.items()}
        if found != dict(self.finds):
            return f"{found} is found, not {dict(self.finds)} ({judgement.broken})"
        allowed = {name for name, anomaly in judgement.anomalies.items() if anomaly.allowed}
        if allowed != found.keys() & {*WARNINGS, *self.history.allowed, *self.history.permitted}:
            return f"{sorted(allowed)} is allowed"
        for name, cause in self.because.items():
            told = judgement.anomalies[name].because
            if told != cause:
                return f"{name} follows from {told}, not from {cause}"
        return None

    def _broken(self, judgement: CheckResult) -> str | None:
        """The first sentence that is missing, and the first that should be."""
        said = [reason.text for reason in judgement.broken.values()]
        for part in self.broken:
            if not any(part in sentence for sentence in said):
                return f"nothing says {part!r}: {'; '.join(said)}"
        return next((one for one in said if not any(part in one for part in self.broken)), None)

    def _unanswered(self, judgement: CheckResult) -> str | None:
        """What nobody can say, or has looked at."""
        if judgement.unsettled.count != self.unsettled:
            return f"{judgement.unsettled} is unsettled, not {self.unsettled}"
        unexplained = set(self.not_checked) - set(judgement.not_checked)
        return f"{unexplained} is not named as not checked" if unexplained else None

    def _untold(self, judgement: CheckResult) -> str | None:
        """The first example that does not hold what it must."""
        for name, wanted in self.tells.items():
            example = judgement.anomalies[name].examples[0]
            if not within(wanted, example):
                return f"the example of {name} holds {example}"
        return None


CASES: list[Case] = []
FAMILIES = (
    "clean", "torn", "ends", "offsets", "zombies", "hanging", "records", "uncommitted", "phantoms", "inputs",
    "output_names", "groups", "sums", "reads", "order", "evidence", "epochs", "states", "markers", "replicas",
    "fencing", "undue_fencing", "stalled", "moves", "tables", "outbox", "decisions", "due", "outside", "observers",
    "contradictions",
)  # fmt: skip


def plain(history: History) -> None:
    """An input, and a transaction that takes it."""
    history.feed(1)
    history.take(0)


def case(
    *,
    because: Mapping[str, str | None] | None = None,
    broken: tuple[str, ...] = (),
    not_checked: tuple[str, ...] = (),
    unsettled: int = 0,
    options: Mapping[str, object] | None = None,
    tells: Mapping[str, object] | None = None,
    **finds: int,
) -> Callable[[Callable[[History], None]], Callable[[History], None]]:
    """Register a case; `lost_write=1` means that exactly one lost-write is found."""

    def register(draw: Callable[[History], None]) -> Callable[[History], None]:
        named = {name.replace("_", "-"): count for name, count in finds.items()}
        said = because or {}, broken, not_checked, unsettled, options or {}, tells or {}
        CASES.append(Case(draw.__name__, draw, named, *said))
        return draw

    return register


def without_sentinels(history: History) -> None:
    """No sentinel was given to any final reader, nor to be met."""
    history.alter("records", lambda row: None if row["sentinel"] else row)
    history.alter("polls", lambda row: None if row["value"] == SENTINEL_VALUE else row)
    history.alter("ends", lambda row: row | {"sentinel_offset": None})


def all_cases() -> list[Case]:
    """Return the cases of all families."""
    for family in FAMILIES:
        import_module(f"case_{family}")
    return CASES


def store(folder: Path, cases: Sequence[Case] | None = None) -> list[StoredRun]:
    """Write a store of these cases, or of all, as runs numbered from 0."""
    histories = [(run, case.history) for run, case in enumerate(all_cases() if cases is None else cases)]
    for log in (True, False):
        write(folder / f"log-{log}", [(run, h) for run, h in histories if h.log is log], log=log)
    return [
        StoredRun(
            run,
            folder / f"log-{h.log}",
            h.wall_ms,
            allowed=dict.fromkeys(h.allowed, "the workload"),
            incomplete=h.incomplete,
            healed_ns=h.healed_ns,
            session_ms=h.session_ms,
            had_log=h.had_log,
            promises=h.promises,
            clock_drift_ms=h.clock_drift_ms,
            broken_premises=h.broken_premises,
            drained=h.drained,
        )
        for run, h in histories
    ]
