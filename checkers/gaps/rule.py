"""Gap rules: what makes evidence incomplete or contradictory, and what follows from it.

A complete run meets the condition of no rule. Each row for which a rule holds is a gap: a reason that makes the run
unknown. A gap names the tables that are not complete, so that an absence from them proves nothing. One fault of the
evidence often leads to many gaps, so a rule names the rules of which its gaps may be a consequence (`follows_from`).

The rules about stored tables (`checkers.gaps.registry`) look at a `RunEvidence`. Those about the plan and the metadata
of a run (`fencepost.checks`) look at other objects. This module does not import PySpark.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from string import Formatter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from harness.common.wording import plural
from harness.model.promises import INTERNAL_TOPICS, SEGMENTS, Promises
from harness.model.vocabulary import Exercise, Role, outputs_in
from harness.results.reasons import Reason, ReasonCode

if TYPE_CHECKING:
    from checkers.stored.sources import StoredRun

T = TypeVar("T")
Row = Mapping[str, Any]
Fact = tuple[str, Row]
"""The kind of the fact, and a row."""


def _any_row(row: Row) -> bool:
    return True


@dataclass(frozen=True)
class GapRule(Generic[T]):
    """A condition on evidence `T` that a complete run never meets, and the reason that follows if it does.

    `sentence`, `subject`, `remedy` and `tables` are templates over the columns of a row. `{lines}` is the value of the
    column, and `{lines:line}` is a count with its noun (`3 lines`); an irregular plural comes after a slash
    (`{n:batch/batches}`). A table that is empty after formatting is left out.
    """

    name: str  # unique among the rules that are applied together
    rows: Callable[[T], Iterable[Row]]  # what the rule looks at
    sentence: str
    where: Callable[[Row], Any] = _any_row  # the condition: each row for which it is true is a gap
    subject: str = ""
    tables: Sequence[str] = ()  # an absence from these tables proves nothing then
    code: ReasonCode = ReasonCode.INCOMPLETE_EVIDENCE
    remedy: str = ""  # empty: the remedy of the code
    follows_from: Sequence[str] = ()
    """Names of rules, and codes of problems that the run reports itself. If the run has a gap or a problem of one of
    them, this gap is a consequence of it."""
    shares: Sequence[str] = ()
    """Columns in which a gap and its cause must agree. A column that the row of the cause lacks is not compared."""
    only_new: bool = False  # no gap if the first of `tables` has a gap already


def once(condition: Callable[[T], Any], **columns: Any) -> Callable[[T], Iterable[Row]]:
    """Return the rows of a rule about the whole run: one row if the condition holds, with its value as `count`."""

    def rows(evidence: T) -> Iterable[Row]:
        value = condition(evidence)
        return ({**columns, "count": value},) if value else ()

    return rows


@dataclass(frozen=True)
class Gap:
    """A row for which a rule holds."""

    rule: GapRule[Any]
    row: Row
    because: str = ""  # the key of the reason from which it follows; empty: it follows from none

    @cached_property
    def reason(self) -> Reason:
        """The reason that makes the run unknown."""
        rule = self.rule
        text, subject, remedy = (
            _filled(part, self.row) for part in (rule.sentence, rule.subject, rule.remedy)
        )
        return Reason(rule.code, text, subject, remedy, self.because, rule.name)

    @property
    def tables(self) -> Sequence[str]:
        """The tables that are not complete."""
        return [name for table in self.rule.tables if (name := _filled(table, self.row))]


class _Template(Formatter):
    """Formats a count with its noun."""

    def format_field(self, value: Any, format_spec: str) -> str:
        noun, _, plural_form = format_spec.partition("/")
        return plural(value, noun, plural_form or None) if noun else str(value)


def _filled(template: str, row: Row) -> str:
    return _Template().vformat(template, (), row) if "{" in template else template


def apply_rules(rules: Iterable[GapRule[T]], evidence: T, problems: Sequence[Reason] = ()) -> list[Gap]:
    """Return the gaps that rules find, in the order of the rules.

    Args:
        problems: what the run itself says that its evidence lacks. Gaps may follow from it.
    """
    gaps = list(_find_gaps(rules, evidence))
    by_name: dict[str, list[tuple[str, Row]]] = defaultdict(
        list
    )  # of rules and codes: the keys, and the rows
    for problem in problems:
        # The subject of a problem that has one is a stage or a journal.
        columns = dict.fromkeys(("stage", "journal") if problem.subject else (), problem.subject)
        by_name[problem.code].append((problem.key, columns))
    for gap in gaps:
        by_name[gap.rule.name].append((gap.reason.key, gap.row))
    causes: dict[tuple[str, str], str] = {}
    for gap in gaps:
        # Of gaps with one subject only the first is shown. A damaged run may have a gap for each of 100,000 partitions.
        name = gap.rule.name, gap.reason.subject
        if name not in causes:
            causes[name] = _cause(gap, by_name)
    return [replace(gap, because=causes[gap.rule.name, gap.reason.subject]) for gap in gaps]


def _find_gaps(rules: Iterable[GapRule[T]], evidence: T) -> Iterator[Gap]:
    incomplete: set[str] = set()
    for rule in rules:
        for row in rule.rows(evidence):
            if rule.where(row):
                gap = Gap(rule, row)
                if not (rule.only_new and gap.tables[0] in incomplete):
                    incomplete.update(gap.tables)
                    yield gap


def _cause(gap: Gap, by_name: Mapping[str, Sequence[tuple[str, Row]]]) -> str:
    """Return the key of the first reason from which a gap may follow."""
    for name in gap.rule.follows_from:
        for key, row in by_name.get(name, ()):
            agrees = all(row[column] == gap.row.get(column) for column in gap.rule.shares if column in row)
            if agrees and key != gap.reason.key:
                return key
    return ""


@dataclass
class EvidenceCounts:
    """The facts of one run, by kind (see `checkers.gaps.facts.gather_facts`)."""

    partitions: dict[int, Row] = field(default_factory=dict)
    journals: list[Row] = field(default_factory=list)
    ends: list[Row] = field(default_factory=list)
    stages: list[Row] = field(default_factory=list)
    groups: list[Row] = field(default_factory=list)  # groups with commits, whose start is not known
    left: dict[str, int] = field(default_factory=dict)  # by stage without journals: inputs without outputs
    replicas: list[Row] = field(default_factory=list)
    contradictions: list[Row] = field(
        default_factory=list
    )  # of recorded tables: rule, and what its sentence says
    markers: list[Row] = field(default_factory=list)  # partitions with more markers than transactions
    disorder: dict[int, int] = field(default_factory=dict)  # by partition: final deliveries out of order
    progress: dict[tuple[str, int], int | None] = field(default_factory=dict)
    """By group and partition: the last committed offset; None: it committed none."""
    intermediate: set[str] = field(default_factory=set)
    """Topics whose expected outputs are made from records of an intermediate topic, not from the inputs."""
    due: set[str] = field(default_factory=set)  # the stages with expected outputs
    numbers: dict[str, Any] = field(default_factory=lambda: defaultdict(int))

    @classmethod
    def gather(cls, rows: Sequence[Fact]) -> "EvidenceCounts":
        """Sort the facts of one run by kind."""
        facts = cls()
        for kind, body in rows:
            if kind == "partition":
                facts.partitions[body["tp"]] = body
            elif kind in ("journal", "end", "stage", "group", "replica", "markers", "contradiction"):
                {
                    "journal": facts.journals,
                    "end": facts.ends,
                    "stage": facts.stages,
                    "group": facts.groups,
                    "replica": facts.replicas,
                    "markers": facts.markers,
                    "contradiction": facts.contradictions,
                }[kind].append(body)
            elif kind == "left":
                facts.left[body["stage"]] = body["inputs"]
            elif kind == "disorder":
                facts.disorder[body["tp"]] = body["backwards"]
            elif kind == "progress":
                facts.progress[body.get("group", ""), body["tp"]] = body.get("final")
            elif kind == "intermediate":
                facts.intermediate.add(body["topic"])
            elif kind == "due":
                facts.due.add(body["stage"])
            else:
                facts.numbers.update(body)
        return facts

    def has_journal_of(self, role: Role) -> bool:
        """True if a process in that role has left a journal."""
        return any(row["role"] == role.value for row in self.journals)

    def total(self, column: str) -> int:
        """Sum a column over all partitions."""
        return sum(row.get(column, 0) for row in self.partitions.values())

    def count_any_outputs(self) -> int:
        """Count the visible records that are outputs, or are in topics that no stage reads."""
        rows = [row for row in self.partitions.values() if not row["internal"]]
        return sum(row.get("outputs" if row["is_input"] else "visible", 0) for row in rows)

    def outputs_by_topic(self) -> dict[str, int]:
        """Count the visible outputs of each topic that has any, by their keys in the verdict's coverage."""
        outputs: Counter[str] = Counter()
        for row in self.partitions.values():
            if row.get("outputs"):
                outputs[outputs_in(row["topic"])] += row["outputs"]
        return dict(sorted(outputs.items()))

    def counted_for_goals(self) -> dict[str, int]:
        """Count what only the goals of some runs need, by the keys of the verdict's coverage."""
        return {
            **{exercise.value: self.numbers[exercise.name.lower()] for exercise in Exercise},
            **self.outputs_by_topic(),
        }

    def name(self, tp: int) -> str:
        """Topic and partition, as in `orders/0`."""
        row = self.partitions.get(tp)
        return f"{row['topic']}/{row['partition']}" if row else f"partition {tp}"

    def logs(self, topic: str | None) -> list[bool]:
        """For each partition of an internal topic (None: of all other topics), True if its leader's log is stored."""
        rows = self.partitions.values()
        return [r["logged"] for r in rows if (r["topic"] == topic if topic else not r["internal"])]


@dataclass(frozen=True)
class RunEvidence:
    """The argument of a rule about stored tables: the counts in the tables of one run, and the settings of that run."""

    facts: EvidenceCounts
    run: "StoredRun"

    @cached_property
    def promises(self) -> Promises:
        """The run's promises. If they are not known, all stages keep journals, and all replicas were read."""
        if self.run.promises is not None:
            return self.run.promises
        stages = sorted({stage["stage"] for stage in self.facts.stages})
        return Promises(
            journaled=tuple(stages), witness=SEGMENTS, internal_logs=INTERNAL_TOPICS, replicas=True
        )

    @property
    def numbers(self) -> Mapping[str, Any]:
        """Counts of the whole run."""
        return self.facts.numbers

    @cached_property
    def partitions(self) -> Sequence[Row]:
        """A row for each partition, in the order of their numbers, with its name as `name`."""
        return [
            {"name": self.facts.name(tp), "tp": tp, **row}
            for tp, row in sorted(self.facts.partitions.items())
        ]

    @property
    def pipeline_partitions(self) -> Sequence[Row]:
        """The rows of `partitions` that are of the pipeline's topics."""
        return [row for row in self.partitions if not row["internal"]]
