"""A checker: its anomalies, what it needs of a run, and how its findings count in a verdict."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from harness.model.vocabulary import Premise

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.external_tables import ExternalTables
    from checkers.findings import AnomalyWording, Findings, Rule, Suspect
    from checkers.stored.tables import Tables

STORED_RUNS, EXTERNAL_HISTORIES, BOTH = "stored runs", "external histories", "both"


@dataclass(frozen=True)
class Cause:
    """An anomaly of which another one may be a consequence."""

    cause: str  # the name of the anomaly
    by_operation: bool = (
        True  # only if every finding of the consequence shares an operation with one of the cause
    )


@dataclass(frozen=True)
class Checker:
    """One file of `checkers/anomalies`: the anomalies that it finds, and how its findings count in a verdict."""

    module: (
        str  # checkers.anomalies.<module>. Its RULES and its function <module> find anomalies in stored runs
    )
    needs: tuple[str, ...] = ()  # keys of `checkers.needs.NEEDS`
    premises: tuple[Premise, ...] = ()  # if a fault breaks one, the checker could accuse a correct pipeline
    rests_on: tuple[str, ...] = ()  # if one of these tables has a gap, an absence proves nothing
    because: tuple[Cause, ...] = ()  # possible causes; the verdict names the first one that was found
    names: tuple[str, ...] = ()  # names of the anomalies; empty: the name of the module, with hyphens
    family: str = "other"
    warning: bool = False  # listed, but never decides a verdict
    always_allowed: tuple[str, ...] = ()  # names of anomalies that no guarantee of Kafka forbids
    applies_to: str = STORED_RUNS  # the function for external histories is <module>_external

    @property
    def anomalies(self) -> tuple[str, ...]:
        """The names of its anomalies in `verdict.json`."""
        return self.names or (self.module.replace("_", "-"),)

    def rules(self, tables: "Tables | ExternalTables") -> Sequence["Rule"]:
        """Return its rules for these tables. For the tables of external histories there are none."""
        rules: Sequence[Rule] = () if tables.suffix else getattr(self._module, "RULES", ())
        return rules

    def suspects(self, tables: "Tables | ExternalTables") -> Sequence["Suspect"]:
        """Return its suspects. If no row matches one of them, `find` finds nothing. Empty: `find` must always be
        called.
        """
        suspects: Sequence[Suspect] = () if tables.suffix else getattr(self._module, "SUSPECTS", ())
        return suspects

    def find(self, tables: "Tables | ExternalTables") -> "DataFrame | None":
        """Return a lazy query for the findings that need more than one row. None: the checker has only rules."""
        function: Callable[[Tables | ExternalTables], DataFrame] | None = getattr(
            self._module, self.module + tables.suffix, None
        )
        return function(tables) if function is not None else None

    def explain(self, tables: "Tables", findings: "Mapping[int, list[Findings]]") -> None:
        """Add details that only this checker knows to the examples of these runs, in place."""
        add_details = getattr(self._module, "explain", None) if findings else None
        if add_details is not None:
            add_details(tables, findings)

    def wording(self, anomaly: str) -> "AnomalyWording":
        """Return the words for one of its anomalies."""
        wording: AnomalyWording = self._module.WORDING[anomaly]
        return wording

    @property
    def _module(self) -> ModuleType:
        return import_module(f"checkers.anomalies.{self.module}")
