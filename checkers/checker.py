"""What a checker is: its anomalies, what it needs of a run, and how its findings are to be taken."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from harness.model.vocabulary import Premise

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.external.tables import ExternalTables
    from checkers.findings.form import Findings
    from checkers.findings.rules import Rule, Suspect
    from checkers.findings.wording import AnomalyWording
    from checkers.stored.tables import Tables

STORED_RUNS, EXTERNAL_HISTORIES, BOTH = "stored runs", "external histories", "both"


@dataclass(frozen=True)
class Cause:
    """A cause. `by_operation`: only if every finding shares an operation with one of the cause."""

    cause: str
    by_operation: bool = True


@dataclass(frozen=True)
class Checker:
    """One file of this room: the anomalies that it finds, and how its findings are to be taken."""

    module: str  # checkers.anomalies.<module>, whose RULES find in a stored run, and its function of the same name
    needs: tuple[str, ...] = ()  # keys of `checkers.needs.NEEDS`
    premises: tuple[Premise, ...] = ()  # without which it would accuse a right pipeline
    rests_on: tuple[str, ...] = ()  # tables that must be whole for absence to prove anything
    because: tuple[Cause, ...] = ()  # the first that holds is told
    names: tuple[str, ...] = ()  # of the anomalies; empty: the module's own, with hyphens
    family: str = "other"
    warning: bool = False  # listed, and never decides
    always_allowed: tuple[str, ...] = ()  # names that no guarantee of Kafka's forbids
    applies_to: str = (
        STORED_RUNS  # what it is for; its function for an external history is named <module>_external
    )

    @property
    def anomalies(self) -> tuple[str, ...]:
        """The names in `verdict.json`."""
        return self.names or (self.module.replace("_", "-"),)

    def rules(self, tables: "Tables | ExternalTables") -> Sequence["Rule"]:
        """What it asks of single rows of these tables: of those of stored runs, its RULES."""
        rules: Sequence[Rule] = () if tables.suffix else getattr(self._module, "RULES", ())
        return rules

    def suspects(self, tables: "Tables | ExternalTables") -> Sequence["Suspect"]:
        """One of which must be there if `look` is to find anything in these tables; empty: nobody knows."""
        suspects: Sequence[Suspect] = () if tables.suffix else getattr(self._module, "SUSPECTS", ())
        return suspects

    def find(self, tables: "Tables | ExternalTables") -> "DataFrame | None":
        """What it finds by more than a row, lazily: see `checkers.findings.build`. None: its rules are all."""
        function: Callable[[Tables | ExternalTables], DataFrame] | None = getattr(
            self._module, self.module + tables.suffix, None
        )
        return function(tables) if function is not None else None

    def explain(self, tables: "Tables", findings: "Mapping[int, list[Findings]]") -> None:
        """Add to the examples of these runs, in place, what only this check knows, if it knows more."""
        more = getattr(self._module, "explain", None) if findings else None
        if more is not None:
            more(tables, findings)

    def wording(self, anomaly: str) -> "AnomalyWording":
        """Return the words for one of its anomalies."""
        wording: AnomalyWording = self._module.WORDING[anomaly]
        return wording

    @property
    def _module(self) -> ModuleType:
        return import_module(f"checkers.anomalies.{self.module}")
