"""Rules: what one row of a shared table must be like to be a finding, and what is then told of it.

Most anomalies are rules. All rules that look at one table are asked together, while it is read once: see
`ask`. What needs more than a row (a join, a window) is a function of its checker instead; some of them begin with rows
that most right runs do not have, their suspects.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from checkers.findings.build import NO_OPERATIONS, columns
from checkers.findings.form import PERMITTED_SUFFIX

NONE = "cast(array() as array<struct<anomaly: string, absence: boolean, position: array<bigint>, "
NONE += "ops: array<bigint>, detail: string>>)"


@dataclass(frozen=True)
class Rule:
    """A condition on a row of one shared table, and the finding that such a row is. Everything but `anomaly`
    and `table` is Spark SQL over the columns of that table.
    """

    anomaly: str  # its name
    table: str  # of `checkers.stored.tables.Tables`
    where: str  # null counts as no
    order: Sequence[str]  # numbers, the first decides; those of one anomaly are of one length
    detail: dict[str, str]  # by name: what an example holds
    elements: str = ""  # a list: a finding for each element, called `element`, for which the condition holds
    ops: str = NO_OPERATIONS  # the operations that it touches
    absence: str = "false"  # whether it rests on something not being there
    permitted: str = ""  # whether the guarantee of the stage that did it permits it; empty: never

    @property
    def name(self) -> str:
        """Its name, and whether it is permitted, in SQL."""
        if not self.permitted:
            return f"'{self.anomaly}'"
        return f"if({self.permitted}, '{self.anomaly}{PERMITTED_SUFFIX}', '{self.anomaly}')"

    @property
    def condition(self) -> str:
        """Whether there is a finding in a row."""
        return f"exists({self.elements}, element -> {self.where})" if self.elements else f"({self.where})"

    @property
    def findings(self) -> str:
        """The findings in a row: a list of structs."""
        told = columns(self.name, order=self.order, ops=self.ops, absence=self.absence, **self.detail)
        one = "named_struct(" + ", ".join(f"'{name}', {value}" for name, value in told.items()) + ")"
        if not self.elements:
            return f"if({self.where}, array({one}), {NONE})"
        return (
            f"coalesce(transform(filter({self.elements}, element -> {self.where}), element -> {one}), {NONE})"
        )


@dataclass(frozen=True)
class Suspect:
    """A row of a shared table without which a checker that needs more than a row finds nothing: see SUSPECTS of the
    files in `checkers.anomalies`. Where there is no such row it is not asked.
    """

    table: str  # of `checkers.stored.tables.Tables`
    where: str  # null counts as no


def apply_rules(table: DataFrame, rules: Sequence[Rule]) -> DataFrame:
    """All findings of rules over one table, in one pass: most rows are let go by the conditions alone."""
    suspects = table.where(" or ".join(rule.condition for rule in rules))
    return suspects.selectExpr("run", f"inline(concat({', '.join(rule.findings for rule in rules)}))")
