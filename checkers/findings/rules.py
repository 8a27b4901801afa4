"""Rules: a condition on one row of a shared table, and the finding that such a row makes.

Most anomalies are rules. All rules over one table are applied in one pass over it: see `apply_rules`. An anomaly that
needs more than one row (a join, a window) is a function of its checker instead. Such a checker may name suspects:
conditions on rows that few runs without anomalies have.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from checkers.findings.build import NO_OPERATIONS, columns
from checkers.findings.form import PERMITTED_SUFFIX

NO_FINDINGS = "cast(array() as array<struct<anomaly: string, absence: boolean, position: array<bigint>, "
NO_FINDINGS += "ops: array<bigint>, detail: string>>)"


@dataclass(frozen=True)
class Rule:
    """A condition on a row of one shared table, and the finding that such a row makes.

    All fields except `anomaly` and `table` are Spark SQL over the columns of the table.
    """

    anomaly: str  # its name
    table: str  # a field of `checkers.stored.tables.Tables`
    where: str  # the condition; null counts as false
    order: Sequence[str]  # numbers; the first one decides. All rules of one anomaly have the same length
    detail: dict[str, str]  # by name: what an example holds
    elements: str = ""  # a list: each element (`element`) for which the condition holds is a finding
    ops: str = NO_OPERATIONS  # the operations that the finding concerns
    absence: str = "false"  # true if the finding rests on something that is missing
    permitted: str = ""  # true if the guarantee of the stage permits the finding; empty: never

    @property
    def name(self) -> str:
        """SQL for the name of the anomaly, with a suffix if the finding is permitted."""
        if not self.permitted:
            return f"'{self.anomaly}'"
        return f"if({self.permitted}, '{self.anomaly}{PERMITTED_SUFFIX}', '{self.anomaly}')"

    @property
    def condition(self) -> str:
        """SQL that is true if the row has a finding."""
        return f"exists({self.elements}, element -> {self.where})" if self.elements else f"({self.where})"

    @property
    def findings(self) -> str:
        """SQL for the findings of a row: a list of structs."""
        fields = columns(self.name, order=self.order, ops=self.ops, absence=self.absence, **self.detail)
        finding = "named_struct(" + ", ".join(f"'{name}', {value}" for name, value in fields.items()) + ")"
        if not self.elements:
            return f"if({self.where}, array({finding}), {NO_FINDINGS})"
        matches = f"filter({self.elements}, element -> {self.where})"
        return f"coalesce(transform({matches}, element -> {finding}), {NO_FINDINGS})"


@dataclass(frozen=True)
class Suspect:
    """A condition on a row of a shared table. If no row matches a suspect of a checker, its function would find
    nothing, so it is not called. See SUSPECTS in the files of `checkers.anomalies`.
    """

    table: str  # a field of `checkers.stored.tables.Tables`
    where: str  # Spark SQL; null counts as false


def apply_rules(table: DataFrame, rules: Sequence[Rule]) -> DataFrame:
    """Return all findings of the rules over one table, in one pass. The conditions first drop most rows."""
    rows = table.where(" or ".join(rule.condition for rule in rules))
    return rows.selectExpr("run", f"inline(concat({', '.join(rule.findings for rule in rules)}))")
