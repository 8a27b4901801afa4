"""The facts of one run that say whether its evidence is complete, and the gaps that were found."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from checkers.stored.tally import Row
from harness.model.vocabulary import Exercise, Role, outputs_in
from harness.results.reasons import Reason, ReasonCode

Fact = tuple[str, Row]
"""The kind of the fact, and a row."""


@dataclass
class EvidenceCounts:
    """The facts of one run, by kind (see `checkers.checking.facts.gather_facts`)."""

    partitions: dict[int, Row] = field(default_factory=dict)
    journals: list[Row] = field(default_factory=list)
    ends: list[Row] = field(default_factory=list)
    stages: list[Row] = field(default_factory=list)
    groups: list[Row] = field(default_factory=list)  # groups with commits, whose start is not known
    left: dict[str, int] = field(default_factory=dict)  # by stage without journals: inputs without outputs
    replicas: list[Row] = field(default_factory=list)
    contradictions: list[Row] = field(default_factory=list)  # name, text, places
    markers: list[Row] = field(default_factory=list)  # partitions with more markers than transactions
    disorder: dict[int, int] = field(default_factory=dict)  # by partition: final deliveries out of order
    progress: dict[tuple[str, int], int | None] = field(default_factory=dict)
    """By group and partition: the last committed offset; None: it committed none."""
    intermediate: set[str] = field(default_factory=set)
    """Topics whose records are made from intermediate records, beside a stage without a promise of order."""
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


@dataclass
class MissingEvidence:
    """The gaps in the evidence of one run."""

    reasons: dict[str, Reason] = field(default_factory=dict)
    tables: set[str] = field(default_factory=set)  # tables with gaps: an absence from them proves nothing
    contradiction: Reason | None = None  # the tables contradict each other, so no finding is proof

    def add_contradiction(self, name: str, sentence: str, *tables: str) -> None:
        """Note that tables contradict each other, so that no finding from them is proof."""
        reason = Reason(ReasonCode.CONTRADICTORY_EVIDENCE, sentence, name)
        self.reasons.setdefault(name, reason)
        self.tables.update(tables)
        self.contradiction = self.contradiction or reason

    def add(self, name: str, sentence: str, *tables: str, remedy: str = "") -> None:
        """Note a gap. The first sentence under a name is kept. An empty `remedy`: the remedy of the reason's code."""
        self.reasons.setdefault(name, Reason(ReasonCode.INCOMPLETE_EVIDENCE, sentence, name, remedy))
        self.tables.update(tables)
