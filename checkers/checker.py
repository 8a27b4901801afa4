"""A checker: its anomalies, what it needs of a run, and how its findings count in a verdict.

For each need and each premise, this module has the reason that a verdict gives if it is missing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from harness.model.vocabulary import Premise
from harness.results.reasons import (
    BY_ACLS,
    NO_AGGREGATE,
    NO_INPUTS,
    NO_JOURNALS,
    NO_ORDER,
    ON_KAFKA,
    Reason,
    ReasonCode,
)

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
    needs: tuple[str, ...] = ()  # keys of `NEEDS`
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
        """Return its suspects. If no row matches one of them, neither `find` nor `undecided` finds anything. Empty:
        both must always be called.
        """
        suspects: Sequence[Suspect] = () if tables.suffix else getattr(self._module, "SUSPECTS", ())
        return suspects

    def find(self, tables: "Tables | ExternalTables") -> "DataFrame | None":
        """Return a lazy query for the findings that need more than one row. None: the checker has only rules."""
        function: Callable[[Tables | ExternalTables], DataFrame] | None = getattr(
            self._module, self.module + tables.suffix, None
        )
        return function(tables) if function is not None else None

    def undecided(self, tables: "Tables | ExternalTables") -> "DataFrame | None":
        """Return a lazy query for the rows that the checker cannot decide, in the form of findings. Their anomaly has
        `checkers.findings.UNDECIDED_INFIX` and a key of `undecided_because`. None: the checker decides all rows.
        """
        if tables.suffix or not hasattr(self._module, "undecided"):
            return None
        rows: DataFrame = self._module.undecided(tables)
        return rows

    @property
    def undecided_because(self) -> Mapping[str, tuple[str, str]]:
        """By key: why a row is not decided, and what would decide it."""
        reasons: Mapping[str, tuple[str, str]] = getattr(self._module, "UNDECIDED", {})
        return reasons

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


NEEDS = {
    "journals": NO_JOURNALS,
    "joined": Reason(
        ReasonCode.NO_EXPECTATION,
        "the expected outputs of the inputs are not known, so no output can be joined to its input",
        remedy="add [expect] to pipeline.toml",
    ),
    "log": Reason(ReasonCode.NO_LOGS, "this run has no broker logs"),
    "offsets": Reason(ReasonCode.NO_OFFSETS_LOG, "this run has no log of __consumer_offsets"),
    "offsets-within": Reason(
        ReasonCode.NO_OFFSETS_WITHIN,
        "no offset of this run was committed in a transaction",
    ),
    "group-offsets": Reason(
        ReasonCode.NO_GROUP_OFFSETS,
        "a stage keeps its offsets outside Kafka, where they cannot be read",
    ),
    "transactions": Reason(
        ReasonCode.NO_TRANSACTIONS_LOG, "this run has no whole log of __transaction_state"
    ),
    "replicas": Reason(ReasonCode.ONE_REPLICA, "this run has the log of only one replica of each partition"),
    "healed": Reason(ReasonCode.NO_LAST_HEAL, "it is not known when the last fault of the run was healed"),
    "expected": Reason(
        ReasonCode.NO_EXPECTATION,
        "the expected outputs of the workload are not known",
        remedy="run a workload that states its expected outputs",
    ),
    "inputs": NO_INPUTS,
    "order": NO_ORDER,
    "aggregate": NO_AGGREGATE,
}
"""By need: the reason in `not_checked` if a run does not meet it."""
ONLY_LAST_RECORDS = Reason(
    ReasonCode.FINAL_ALONE,
    "only the last record of each key is checked (`final` in pipeline.toml): see aggregate-mismatch",
)
"""Replaces the reasons for unjoined outputs if a custom pipeline has only `final` outputs."""
TRANSACTION_NEEDS = frozenset({"transactions", "offsets-within"})
"""The needs that only a pipeline with transactions can meet."""
PREMISES = {
    Premise.LEADER_ALWAYS: Reason(
        ReasonCode.PREMISE_BROKEN, "the faults of this run may leave a partition without a leader for long"
    ),
    Premise.NO_LATE_BYTES: Reason(
        ReasonCode.PREMISE_BROKEN,
        "the faults of this run may deliver requests after their connection has ended",
    ),
    Premise.ONE_CLOCK: Reason(
        ReasonCode.PREMISE_BROKEN, "the clocks of brokers and clients may differ in this run"
    ),
    Premise.WHOLE_LOGS: Reason(
        ReasonCode.PREMISE_BROKEN, "the faults of this run may destroy records that brokers had written"
    ),
}
"""By premise: the reason in `not_checked` if the faults of a run may break it."""


def refused_log(topic: str, words: str) -> Reason:
    """Return the reason for a log of an internal topic that the cluster did not give. `words`: what it answered."""
    if not words.startswith(BY_ACLS):  # another user would get the same answer
        return Reason(ReasonCode.LOG_REFUSED, words, topic, ON_KAFKA)
    remedy = (
        f"allow this user Read and Describe on the topic {topic} "
        f"(kafka-acls.sh --add --allow-principal User:NAME --operation Read --operation Describe --topic {topic})"
    )
    return Reason(ReasonCode.LOG_REFUSED, f"{words}: {remedy}", topic, remedy)
